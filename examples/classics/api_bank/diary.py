"""What a user has to do: agenda, alarms, meetings, reminders. An entry is found by its words, or by its time."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field
from records import Base, Refused, Time, Token, api, time_in

Content = Annotated[str, Field(description="what it is about")]
Location = Annotated[str, Field(description="where it is")]
Topic = Annotated[str, Field(description="the title of the meeting, at most 50 characters")]
Attendees = Annotated[list[str], Field(description="the names of those who attend the meeting")]


def _added(base: Base, table: str, token: str, **entry: Any) -> str:
    entries = base.table(table)
    number = max((int(key) for key in entries), default=0) + 1
    entries[str(number)] = {"username": base.user(token), **entry}
    return "success"


def _found(base: Base, table: str, token: str, missing: str, **by: str | None) -> tuple[dict[str, Any], str]:
    """The table, and the key of the first entry of the user with one of these values. Raises Refused."""
    user, entries = base.user(token), base.table(table)
    for key, entry in entries.items():
        if entry["username"] == user and any(value and entry[name] == value for name, value in by.items()):
            return entries, key
    raise Refused(missing)


def _said(content: str, what: str = "Content") -> str:
    if not content.strip():
        raise Refused(f"{what} should not be null")
    return content


def _about(kind: str, content: str, time: str) -> str:
    return f"You have no {kind} about {content}" if content else f"You have no {kind} at time : {time}"


def _if_given(time: str) -> str:
    return time_in(time) if time else time


@api("AddAgenda")
def add_agenda(base: Base, token: Token, content: Content, time: Time, location: Location) -> str:
    """Add an item to the schedule (agenda) of a user."""
    return _added(base, "Agenda", token, content=_said(content), time=time_in(time), location=location)


@api("QueryAgenda")
def query_agenda(base: Base, token: Token, content: Content, time: Time, location: Location) -> dict[str, Any]:
    """Get an item of the schedule (agenda) of a user."""
    entries, key = _found(base, "Agenda", token, _about("agenda", content, time), content=content, time=_if_given(time))
    return dict(entries[key])


@api("ModifyAgenda")
def modify_agenda(base: Base, token: Token, content: Content, time: Time, location: Location) -> str:
    """Modify a schedule item of a user's agenda: change its time and location."""
    entries, key = _found(base, "Agenda", token, _about("agenda", content, time), content=content, time=_if_given(time))
    entries[key] |= {"content": content, "time": time, "location": location}
    return "success"


@api("DeleteAgenda")
def delete_agenda(base: Base, token: Token, content: Content, time: Time, location: Location) -> str:
    """Delete an item from the schedule (agenda) of a user."""
    entries, key = _found(base, "Agenda", token, _about("meeting", content, time), content=content, time=_if_given(time))
    del entries[key]
    return "success"


@api("AddAlarm")
def add_alarm(base: Base, token: Token, time: Time) -> str:
    """Set an alarm clock for a user."""
    return _added(base, "Alarm", token, time=time_in(time))


@api("QueryAlarm")
def query_alarm(base: Base, token: Token, time: Time) -> dict[str, Any]:
    """Query an alarm clock that a user has set."""
    entries, key = _found(base, "Alarm", token, f"You have no alarm clock at time : {time}", time=time_in(time))
    return dict(entries[key])


@api("ModifyAlarm")
def modify_alarm(base: Base, token: Token, from_time: Time, to_time: Time) -> str:
    """Modify an alarm clock: move it from one time to another."""
    entries, key = _found(base, "Alarm", token, f"You have no agenda at time : {from_time}", time=time_in(from_time))
    entries[key]["time"] = time_in(to_time)
    return "success"


@api("DeleteAlarm")
def delete_alarm(base: Base, token: Token, time: Time) -> str:
    """Delete (remove) an alarm clock of a user."""
    entries, key = _found(base, "Alarm", token, f"You have no alarm clock at time : {time}", time=time_in(time))
    del entries[key]
    return "success"


@api("AddMeeting")
def add_meeting(base: Base, token: Token, meeting_topic: Topic, start_time: Time, end_time: Time, location: Location,
                attendees: Attendees) -> str:
    """Reserve a meeting: add it for a user."""
    return _added(base, "Meeting", token, meeting_topic=_said(meeting_topic, "Meeting Topic"), start_time=time_in(start_time),
                  end_time=time_in(end_time), location=location, attendees=attendees)


def _meeting(base: Base, token: str, topic: str, start: str, end: str) -> tuple[dict[str, Any], str]:
    _if_given(end)
    if not topic.strip() and not start:
        raise Refused("Meeting Topic and start_time should not be null both")
    return _found(base, "Meeting", token, _about("meeting", topic, start), meeting_topic=topic, start_time=_if_given(start))


@api("QueryMeeting")
def query_meeting(base: Base, token: Token, meeting_topic: Topic, start_time: Time, end_time: Time, location: Location,
                  attendees: Attendees) -> dict[str, Any]:
    """Query a reserved meeting of a user: gives the reservation."""
    entries, key = _meeting(base, token, meeting_topic, start_time, end_time)
    return dict(entries[key])


@api("ModifyMeeting")
def modify_meeting(base: Base, token: Token, meeting_topic: Topic, start_time: Time, end_time: Time, location: Location,
                   attendees: Attendees) -> str:
    """Modify a reserved meeting of a user: change its topic or time."""
    entries, key = _meeting(base, token, meeting_topic, start_time, end_time)
    entries[key] |= {"meeting_topic": meeting_topic} if meeting_topic else {}
    entries[key] |= {"start_time": start_time, "end_time": end_time} if start_time else {}
    return "success"


@api("DeleteMeeting")
def delete_meeting(base: Base, token: Token, meeting_topic: Topic, start_time: Time, end_time: Time, location: Location,
                   attendees: Attendees) -> str:
    """Delete (cancel) a reserved meeting of a user: the cancellation of a meeting."""
    entries, key = _meeting(base, token, meeting_topic, start_time, end_time)
    del entries[key]
    return "success"


def _reminder(base: Base, token: str, content: str, time: str) -> tuple[dict[str, Any], str]:
    missing = f"You have no reminder about {content} or at time : {time}"
    return _found(base, "Reminder", token, missing, content=_said(content), time=time_in(time))


@api("AddReminder")
def add_reminder(base: Base, token: Token, content: Content, time: Time) -> str:
    """Add a reminder for a user."""
    return _added(base, "Reminder", token, content=_said(content), time=time_in(time))


@api("QueryReminder")
def query_reminder(base: Base, token: Token, content: Content, time: Time) -> dict[str, Any]:
    """Query a reminder of a user: gives it where it exists."""
    entries, key = _reminder(base, token, content, time)
    return dict(entries[key])


@api("ModifyReminder")
def modify_reminder(base: Base, token: Token, content: Content, time: Time) -> str:
    """Modify a reminder of a user: change its words or its time."""
    entries, key = _reminder(base, token, content, time)
    entries[key] |= {"content": content, "time": time}
    return "success"


@api("DeleteReminder")
def delete_reminder(base: Base, token: Token, content: Content, time: Time) -> str:
    """Delete a reminder of a user."""
    entries, key = _reminder(base, token, content, time)
    del entries[key]
    return "success"
