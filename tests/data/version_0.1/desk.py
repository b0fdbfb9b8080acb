import json
def answer(request):
    step = request.step
    if step == "plan_it":
        return {"openings": ["Dear Ada", "Dear Bob"]}
    if step == "write":
        return request.messages[-1]["content"].split("Begin with ")[1].split(".")[0] + ",\nall is well."
    if step == "judge_it":
        return {"good": True, "why": "short"}
    return "=== file: letters.md ===\n# Letters\n=== end ===\n"
