"""Holds the contract table against the transcript that a card left: recorded.py JSON COUNT TRANSCRIPT

JSON is what the table said of the stand-in, COUNT how many rows it must hold. A row that a driver
runs stands in the transcript with the answer that is expected, so that the same table ends with
status 0 on that card; one that came later has a line there that says why: `# NAME: REASON`.
"""
import collections
import json
import sys


def read(path):
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    answers = dict(line.split(" -> ") for line in lines if not line.startswith("#"))
    excused = {line[2:].split(": ")[0] for line in lines if line.startswith("# ") and ": " in line}
    return answers, excused


def doubled(rows):
    """A fact's number or a sequence of calls that two rows have."""
    for part in zip(*(row["row"].split() for row in rows)):
        yield from (word for word, count in collections.Counter(part).items() if count > 1)


def differences(rows, answers, excused):
    for word in doubled(rows):
        yield f"{word}: two rows have it"
    for name in sorted(answers.keys() - {row["row"] for row in rows}):
        yield f"{name}: recorded, and no row any more"
    for row in rows:
        name = row["row"]
        if not row["is_right"]:
            yield f"{name}: {row['answer']} here"
        if name not in answers:
            if row["is_for_drivers"] and name.split()[0] not in excused:
                yield f"{name}: neither recorded nor with a reason"
        elif answers[name] != row["expected"]:
            yield f"{name}: {answers[name]} recorded, {row['expected']} expected"


def main(table, count, transcript):
    with open(table, encoding="utf-8") as file:
        rows = json.load(file)["rows"]
    answers, excused = read(transcript)
    found = list(differences(rows, answers, excused))
    if len(rows) != int(count):
        found.append(f"{len(rows)} rows, not {count}")
    for line in found:
        print(line)
    print(f"{len(answers)} rows recorded, {len(rows)} here")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
