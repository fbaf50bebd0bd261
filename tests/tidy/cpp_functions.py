"""Finds the functions of a C++ source without compiling it.

    functions(text)  -> the functions that have a body, or are pure virtual

Reads braces and parentheses, no types. It knows namespaces, classes, member
initializers and initializer lists; what a macro hides it does not see.
"""
import dataclasses
import re

CONTROL = re.compile(r"(if|for|while|switch|catch|do|else|try)\b")
TYPE = re.compile(r"(class|struct|union|enum)\b")
SCOPE = re.compile(r"(inline\s+)?namespace\b|extern\b\s*(\"\s*\")?\s*$|HWY_")
OPERATOR = re.compile(r"operator\s*([^\w\s(]+|\(\s*\))")
CALLED_BEFORE_NAMES = re.compile(
    r"\b(__attribute__|__launch_bounds__|alignas|noexcept|decltype|requires)\s*\(")


@dataclasses.dataclass
class Function:
    name: str
    line: int  # of the opening brace, or of the end of a pure virtual one
    lines: int  # from the opening to the closing brace
    parameters: int


def blanked(text):
    """Returns the text with comments, strings and directives blanked out."""
    def blank(match):
        found = match.group(0)
        if found[0] in "\"'R":
            return '"' + re.sub(r"[^\n]", " ", found[2:]) + '"'
        return re.sub(r"[^\n]", " ", found)
    text = re.sub(r'R"(\w*)\((?:.|\n)*?\)\1"|//[^\n]*|/\*(?:.|\n)*?\*/'
                  r'|"(?:\\.|[^"\\\n])*"' r"|(?<!\w)'(?:\\.|[^'\\\n])*'", blank, text)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", blank, text, flags=re.M)


def closing(text, start):
    """Returns the position of the bracket that closes the one at `start`."""
    pairs = {"(": ")", "{": "}", "[": "]"}
    depth = []
    for position in range(start, len(text)):
        letter = text[position]
        if letter in pairs:
            depth.append(pairs[letter])
        elif depth and letter == depth[-1]:
            depth.pop()
            if not depth:
                return position
    return len(text) - 1


def without_template(head):
    head = head.strip()
    while head.startswith("template"):
        depth = 0
        for position, letter in enumerate(head):
            depth += (letter == "<") - (letter == ">" and head[position - 1] != "-")
            if letter == ">" and depth == 0:
                break
        head = head[position + 1:].strip()
    return head


def parameter_list(head):
    """Returns (name, text between its parentheses, text after them), or None."""
    plain = OPERATOR.sub(lambda m: "operator" + "_" * (len(m.group(0)) - 8), head)
    plain = CALLED_BEFORE_NAMES.sub(
        lambda m: m.group(0)[:-1] + "\0", plain)
    angle = 0
    for position, letter in enumerate(plain):
        if letter == "\0":
            # The argument of an attribute: skip it.
            end = closing(head, position)
            plain = plain[:position] + " " * (end - position + 1) + plain[end + 1:]
            return parameter_list(plain)
        if letter == "<":
            angle += 1
        elif letter == ">" and plain[position - 1] != "-":
            angle = max(0, angle - 1)
        elif letter == "(" and angle == 0:
            name = re.search(r"([~\w:]+)\s*$", plain[:position])
            end = closing(plain, position)
            if name is None:
                return None
            return name.group(1), head[position + 1:end], head[end + 1:]
    return None


def count_parameters(text):
    if text.strip() in ("", "void"):
        return 0
    depth, commas = 0, 0
    for position, letter in enumerate(text):
        if letter in "(<[{":
            depth += 1
        elif letter in ")]}" or (letter == ">" and text[position - 1] != "-"):
            depth -= 1
        elif letter == "," and depth == 0:
            commas += 1
    return commas + 1


def is_member_initializer(head, after):
    """Returns whether the brace after `head` opens `a_{...}` and not the body."""
    return (re.match(r"[^:]*:(?!:)", after) is not None
            and re.search(r"[:,]\s*[\w:]+(<[^{}]*>)?\s*$", head) is not None)




def functions(text):
    code = blanked(text)
    line_of = lambda position: code.count("\n", 0, position) + 1  # noqa: E731
    found, begin, position = [], 0, 0
    while position < len(code):
        letter = code[position]
        if letter == "(":
            position = closing(code, position)
        elif letter == ";":
            head = without_template(code[begin:position])
            if re.search(r"\)[\w\s]*=\s*0$", head):
                parts = parameter_list(head)
                if parts:
                    found.append(Function(parts[0], line_of(position), 1,
                                          count_parameters(parts[1])))
            begin = position + 1
        elif letter == "}":
            begin = position + 1
        elif letter == ":" and re.search(r"\b(public|private|protected)\s*$",
                                         code[begin:position]):
            begin = position + 1
        elif letter == "{":
            position, begin = opened(code, begin, position, line_of, found)
        position += 1
    return found


def opened(code, begin, position, line_of, found):
    """What to read next after the brace at `position`, and where heads begin."""
    head = without_template(code[begin:position])
    if SCOPE.match(head):
        return position, position + 1
    parts = parameter_list(head)
    typed = TYPE.match(head)
    if typed and (parts is None or "{" not in head and not re.search(r"\)[\w\s]*$", head)):
        if typed.group(1) == "enum":
            return closing(code, position), begin
        return position, position + 1
    end = closing(code, position)
    if parts is None or CONTROL.match(head):
        return end, begin
    name, arguments, after = parts
    if re.search(r"(^|[^=!<>])=([^=]|$)", OPERATOR.sub("operator", head.split("(")[0])):
        return end, begin  # the initial value of a variable
    if is_member_initializer(head, after):
        return end, begin
    first, last = line_of(position), line_of(end)
    cases = len(re.findall(r"^\s*case [\w:]+:$", code[position:end], re.M))
    found.append(Function(name, first, last - first - cases,
                          count_parameters(arguments)))
    return end, end + 1
