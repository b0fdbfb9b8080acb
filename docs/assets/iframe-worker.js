/* A page that is opened from the disk may start no Worker. There the script of one runs in a hidden frame of the page instead,
   so that the search works: the frame shares the page's origin, and messages go both ways. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.inside = frame.contentWindow;
      const hear = event => {
        if (event.source !== this.inside) return;
        const heard = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(heard);
        if (this.onmessage) this.onmessage(heard);
      };
      addEventListener("message", hear);
      this.ready = new Promise(resolve => {
        const page = frame.contentDocument;
        page.open();
        page.write("<!doctype html><body></body>");
        page.close();
        this.inside.postMessage = data => window.dispatchEvent(new MessageEvent("message", { data, source: this.inside }));
        const script = page.createElement("script");
        script.src = url;
        script.onload = () => resolve();
        page.body.appendChild(script);
      });
      this.terminate = () => { removeEventListener("message", hear); frame.remove(); };
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
