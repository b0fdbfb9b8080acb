"""What stands for the models of HuggingGPT: functions whose docstrings are their model cards."""

_PICTURES = {"cats.png": ("two cats on a sofa", {"cat": 2, "sofa": 1})}
_FRENCH = {"two cats on a sofa": "deux chats sur un canapé"}


def caption(image: str) -> str:
    """Image to text: says in one line what a picture shows."""
    return _PICTURES[image][0]


def detect(image: str, kind: str) -> int:
    """Object detection: counts the things of one kind in a picture."""
    return _PICTURES[image][1].get(kind, 0)


def translate(text: str) -> str:
    """Translation: English to French."""
    return _FRENCH[text]
