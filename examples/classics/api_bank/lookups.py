"""What is looked up, worked out, sent and played. Where the original asks a service, a database of that name may stand in."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections import Counter
from typing import Annotated, Any

from pydantic import Field
from records import Base, Refused, api, day_in, named

Keyword = Annotated[str, Field(description="the word or words to search for")]
_MOST_FORMULA = 1_000                # characters
_SIGNS: dict[type[ast.AST], Any] = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
                                    ast.Div: operator.truediv}
_EMAIL = re.compile(r"[a-z0-9]+[._]?[a-z0-9]+@\w+[.]\w{2,3}")


@api("Calculator")
def calculator(base: Base,
               formula: Annotated[str, Field(description="whole numbers, + - * / and parentheses: (1 + 2) * 3")]) -> float:
    """Calculate a formula: addition, subtraction, multiplication (a square is one), division."""
    text = formula.replace(" ", "")
    if not re.fullmatch(r"[\d+\-*/()]+", text) or len(text) > _MOST_FORMULA or not re.search(r"[+\-*/]", text):
        raise Refused("invalid formula")
    try:
        return _worked_out(ast.parse(text, mode="eval").body)
    except (SyntaxError, RecursionError):
        raise Refused("invalid formula") from None
    except (ZeroDivisionError, OverflowError) as error:
        raise Refused(str(error)) from None


def _worked_out(node: ast.expr) -> float:
    if isinstance(node, ast.BinOp) and type(node.op) in _SIGNS:
        return float(_SIGNS[type(node.op)](_worked_out(node.left), _worked_out(node.right)))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_worked_out(node.operand)
    if isinstance(node, ast.Constant):
        return float(node.value)                        # type: ignore[arg-type]
    raise Refused("invalid formula")


@api("GetToday")
def get_today(base: Base) -> str:
    """Get today's date: in this benchmark it stands still."""
    return "2023-03-31"


@api("QueryHistoryToday")
def query_history_today(base: Base, date: Annotated[str, Field(description="a day like 03-18")]) -> list[str]:
    """Query what happened in history on a day of the year."""
    day = _day_of_year(date.strip())
    if day not in base.table("History"):
        raise Refused("The date is not in the database.")
    return [f"Title: {one['Title'].strip()}, Date: {one['Date'].strip()}, Description: {one['Description'].strip()}"
            for one in base.table("History")[day]]


def _day_of_year(date: str) -> str:
    for text in (date, f"2000-{date}"):                 # a leap year, so that the last of February is a day
        try:
            return day_in(text)[5:]
        except ValueError:
            continue
    raise Refused(f"{date!r} is no day like 03-18")


@api("Wiki")
def wiki(base: Base, keyword: Keyword) -> dict[str, str]:
    """Search a keyword in the Wikipedia: gives the summary and the address."""
    found = base.table("Wiki").get(keyword.replace("_", " ").strip().lower())
    if found is None:
        raise Refused("Keyword not found.")
    return {"url": found["url"], "summary": found["summary"]}


@api("SearchEngine")
def search_engine(base: Base, keyword: Keyword) -> list[dict[str, str]]:
    """Search the web for a keyword: gives the two best pages."""
    table = base.table("SearchEngine")
    scores = _okapi([[str(word) for word in words] for words in table["tokenized_documents"]],
                    re.findall(r"\w+|[^\w\s]", keyword.lower().strip()))
    best = sorted(range(len(scores)), key=lambda place: (-scores[place], place))[:2]
    return [table["raw_documents"][place] for place in best]


def _okapi(documents: list[list[str]], query: list[str]) -> list[float]:
    """BM25 as Okapi has it, with a floor for words that half of the documents hold."""
    counts = [Counter(words) for words in documents]
    usual = sum(map(len, documents)) / len(documents)
    shared = Counter(word for count in counts for word in count)
    rare = {word: math.log(len(documents) - number + 0.5) - math.log(number + 0.5) for word, number in shared.items()}
    floor = 0.25 * sum(rare.values()) / len(rare)
    weight = {word: value if value >= 0 else floor for word, value in rare.items()}
    return [sum(weight[word] * count[word] * 2.5 / (count[word] + 1.5 * (0.25 + 0.75 * len(words) / usual))
                for word in query if word in count) for words, count in zip(documents, counts, strict=True)]


@api("Dictionary")
def dictionary(base: Base, keyword: Keyword) -> list[Any]:
    """Look a word up in a dictionary: its meanings and definitions."""
    found = base.table("Dictionary").get(keyword.replace("_", " ").strip().lower())
    if found is None:
        raise Refused("Failed.")
    return list(found)


@api("Translate")
def translate(base: Base, src: Annotated[str, Field(description="the text to be translated")],
              src_lang: Annotated[str, Field(description="the language it is in; left out: it is recognised")] = "auto",
              tgt_lang: Annotated[str, Field(description="the language it is translated into")] = "en") -> str:
    """Translate a text into another language."""
    found = base.table("Translate").get(tgt_lang.lower(), {}).get(src.strip().lower())
    if found is None:
        raise Refused("Language not supported.")
    return str(found)


@api("DocumentQA")
def document_qa(base: Base, url: Annotated[str, Field(description="the address of the document, which ends in .txt")],
                question: Annotated[str, Field(description="the question to be answered")]) -> str:
    """Answer a question from a document."""
    if not question.strip():
        raise Refused("The question is empty.")
    if url.strip() not in base.table("QuestionAnswering"):
        raise Refused("The document of this url failed to be processed.")
    pairs = base.table("QuestionAnswering")[url.strip()]
    return next((str(one["answer"]) for one in pairs if one["question"] == question.strip()),
                "The question is too difficult to answer.")


@api("ImageCaption")
def image_caption(base: Base, url: Annotated[str, Field(description="the address of the picture: .jpg, .jpeg or .png")]) -> str:
    """Say in words what a picture shows: a caption."""
    if not url.strip().endswith((".jpg", ".jpeg", ".png")):
        raise Refused("The url should end with .jpg, .jpeg or .png.")
    for one in base.table("ImageCaptioning"):
        if one["url"] == url.strip():
            return str(one["caption"])
    raise Refused("The image of this url failed to be processed.")


@api("SpeechRecognition")
def speech_recognition(base: Base, url: Annotated[str, Field(description="the address of the sound: .wav")]) -> str:
    """Recognise speech: the words of an audio file."""
    if not url.strip().endswith(".wav"):
        raise Refused("The url should end with .wav.")
    if url.strip() not in base.table("SpeechRecognition"):
        raise Refused("The audio of this url failed to be processed.")
    return str(base.table("SpeechRecognition")[url.strip()])


@api("PlayMusic")
def play_music(base: Base, music_name: Annotated[str, Field(description="the name of the music")]) -> str:
    """Play music: gives the address that starts the player."""
    return f"music://{named(music_name, 'The music name')}"


@api("SendEmail")
def send_email(base: Base, receiver: Annotated[str, Field(description="the address of the receiver")],
               subject: Annotated[str, Field(description="what the e-mail is about")],
               content: Annotated[str, Field(description="what the e-mail says")]) -> str:
    """Send an e-mail: it is put down as sent, and goes nowhere."""
    if not _EMAIL.fullmatch(receiver.strip()):
        raise Refused("Email address of the receiver is invalid.")
    for name, text in (("Subject", subject), ("Content", content)):
        if not text.strip():
            raise Refused(f"{name} cannot be empty.")
    return "success"
