"""Messages of .proto files and their fields."""
import re


def parse_messages(text):
    """Returns {full name: {field: (type, is a map)}} of a .proto file."""
    messages, open_names = {}, []
    tokens = re.compile(r"\b(message|enum|oneof|service|extend) ([\w.]+) \{|(\{)|(\})|"
                        r"(?:repeated |optional )?(map<[^>]+>|[\w.]+)\s+(\w+)\s+="
                        r"\s+\d+\s*(?=[;\[])")
    for found in tokens.finditer(text):
        kind, name, other, end, of_type, field = found.groups()
        if kind or other:
            open_names.append((kind, name))
            if kind == "message":
                messages[".".join(n for k, n in open_names if k == "message")] = {}
        elif end:
            if open_names:
                open_names.pop()
        elif open_names[-1][0] in ("message", "oneof"):
            inside = ".".join(n for k, n in open_names if k == "message")
            messages[inside][field] = (of_type, of_type.startswith("map<"))
    return messages


def message_of(messages, of_type, inside):
    """Returns the full name of the message that a field of `inside` has; None for a
    type that is no message."""
    scope = inside.split(".")
    for depth in range(len(scope), -1, -1):
        name = ".".join(scope[:depth] + [of_type])
        if name in messages:
            return name
    return None
