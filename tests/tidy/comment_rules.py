"""Comments that open as a fragment: "Of it, in a row; the last one."

A comment is read where it stands, so its first sentence is a whole one, or a
noun phrase. A headless relative or a dangling part of a sentence is neither.
"""
import re

# No first sentence opens with these.
FRAGMENT = {
    "And", "How", "Nor", "Of", "Or", "So", "Than", "That", "Those", "What",
    "Which", "Who", "Whom", "Whose",
}
# These may open a condition or a comparison, which a comma ends: "Where the
# system refuses, the pages are staged."
CONDITION = {"As", "Where"}


def blocks(text):
    """Yields (line, text) of each run of lines that are only comments."""
    start, lines = None, []
    for number, line in enumerate(text.splitlines() + [""], 1):
        found = re.match(r"\s*//+<?\s?(.*)", line)
        if found:
            start = start or number
            lines.append(found.group(1))
        elif start:
            yield start, " ".join(lines)
            start, lines = None, []


def is_fragment(comment):
    words = re.match(r"\s*([A-Za-z]+)", comment)
    if not words:
        return False
    sentence = re.split(r"(?<=[.?!])\s", comment.strip() + " ", 1)[0]
    if sentence.endswith("?"):
        return False  # the question that a benchmark answers
    return (words.group(1) in FRAGMENT
            or words.group(1) in CONDITION and "," not in sentence)


def fragments(path, text):
    for number, comment in blocks(text):
        if is_fragment(comment):
            yield f"{path}:{number}: {comment[:60]}"
