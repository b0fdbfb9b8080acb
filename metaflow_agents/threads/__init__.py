"""What goes on beside the event loop: blocking calls, the garbage collector, the watchdog, the time of an attempt."""
