"""Appointments, health data, symptoms."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

from pydantic import Field
from records import Base, Date, Refused, Time, api, day_in, named, time_in

Patient = Annotated[str, Field(description="the name of the patient")]
AppointmentId = Annotated[str, Field(description="the ID of the appointment")]
UserId = Annotated[str, Field(description="the ID of the user; small and capital letters are the same")]
Symptom = Annotated[str, Field(description="the symptom to search for")]


@api("AppointmentRegistration")
def appointment_registration(base: Base, patient_name: Patient, date: Date,
                             doctor_name: Annotated[str, Field(description="the name of the doctor")]) -> str:
    """Register an appointment of a patient at a hospital. Gives the ID of the appointment."""
    patient, doctor, day = patient_name.strip(), doctor_name.strip(), day_in(date)
    if not patient or not doctor:
        raise Refused("Patient name or doctor name cannot be empty.")
    booked = base.table("Appointments")
    for one in booked.values():
        if (one["patient_name"], day_in(one["date"])) == (patient, day):
            raise Refused("This appointment has already been registered." if one["doctor_name"] == doctor else
                          "This patient has already been registered in this day.")
    number = int(hashlib.sha256(f"{patient}\0{day}\0{doctor}".encode()).hexdigest(), 16) % 90_000_000
    while str(10_000_000 + number) in booked:
        number = (number + 1) % 90_000_000
    booked[str(10_000_000 + number)] = {"patient_name": patient, "date": day, "doctor_name": doctor}
    return str(10_000_000 + number)


@api("QueryRegistration")
def query_registration(base: Base, patient_name: Patient, date: Date) -> dict[str, Any]:
    """Query the registered appointments of a patient on a day."""
    day, booked = day_in(date), base.table("Appointments")
    found = {key: one for key, one in booked.items() if (one["patient_name"], day_in(one["date"])) == (patient_name.strip(), day)}
    if not found:
        raise Refused("No appointments found.")
    return found


@api("ModifyRegistration")
def modify_registration(
    base: Base, appointment_id: AppointmentId,
    new_appointment_date: Annotated[str | None, Field(description="the new day, like 2023-03-18")] = None,
    new_appointment_doctor: Annotated[str | None, Field(description="the new doctor")] = None,
) -> str:
    """Modify the registration of an appointment: another day, another doctor."""
    booked = base.table("Appointments")
    if appointment_id.strip() not in booked:
        raise Refused("The appointment ID does not exist.")
    one = booked[appointment_id.strip()]
    doctor = None if new_appointment_doctor is None else new_appointment_doctor.strip()
    if doctor == "":
        raise Refused("Fail because the doctor name is empty.")
    wanted = {"date": None if new_appointment_date is None else day_in(new_appointment_date), "doctor_name": doctor}
    given = {key: value for key, value in wanted.items() if value is not None}
    same = [key for key, value in given.items() if one[key] == value]
    if not given or len(same) == 2:
        raise Refused("Fail because no modification is made.")
    if same:
        raise Refused(f"Fail because {'date' if same == ['date'] else 'doctor'} is not changed.")
    one |= given
    return "success"


@api("CancelRegistration")
def cancel_registration(base: Base, appointment_id: AppointmentId) -> str:
    """Cancel the registration of an appointment."""
    if appointment_id.strip() not in base.table("Appointments"):
        raise Refused("The appointment ID does not exist.")
    del base.table("Appointments")[appointment_id.strip()]
    return "success"


@api("RecordHealthData")
def record_health_data(
    base: Base, user_id: UserId, time: Time,
    health_data: Annotated[list[dict[str, Any]], Field(description="like [{'name': 'blood_pressure', 'value': '120/80'}]")],
) -> str:
    """Record health data of a user at a time: the health record."""
    user, at = user_id.strip().upper(), time_in(time)
    if not user:
        raise Refused("The user id cannot be empty.")
    if not health_data:
        raise Refused("The health data cannot be empty.")
    if any("name" not in one or "value" not in one for one in health_data):
        raise Refused("The health data has invalid format.")
    if len({one["name"] for one in health_data}) < len(health_data):
        raise Refused("The health data cannot contain duplicate items.")
    records = base.table("HealthData").setdefault(user, [])
    there = next((record for record in records if record["time"] == at), None)
    if there is None:
        records.append(there := {"time": at})
    there |= {one["name"]: one["value"] for one in health_data}
    return "success"


@api("QueryHealthData")
def query_health_data(base: Base, user_id: UserId, start_time: Time, end_time: Time) -> list[Any]:
    """Query the health data that were recorded for a user in a span of time."""
    user, start, end = user_id.strip().upper(), time_in(start_time), time_in(end_time)
    if not user:
        raise Refused("The user id cannot be empty.")
    if start > end:
        raise Refused("The start time cannot be later than the end time.")
    if user not in base.table("HealthData"):
        raise Refused("The user id does not exist.")
    found = [record for record in base.table("HealthData")[user] if start <= record["time"] <= end]
    if not found:
        raise Refused("There is no health data in the given time span.")
    return found


def _diseases(base: Base, symptom: str, field: str) -> list[dict[str, str]]:
    wanted = named(symptom, "The symptom")
    if wanted not in base.table("Symptom"):
        raise Refused("The symptom does not exist.")
    return [{"name": one["name"], field: one[field]} for one in base.table("Symptom")[wanted]]


@api("SymptomSearch")
def symptom_search(base: Base, symptom: Symptom) -> list[dict[str, str]]:
    """Search what diseases a symptom such as a rash may come from, with a description of each."""
    return _diseases(base, symptom, "description")


@api("EmergencyKnowledge")
def emergency_knowledge(base: Base, symptom: Symptom) -> list[dict[str, str]]:
    """Search for first aid: emergency knowledge about a symptom."""
    return _diseases(base, symptom, "aid")
