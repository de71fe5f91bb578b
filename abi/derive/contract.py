"""Reads the contract headers into a model: structs with their layout, slots with their signature and
thread tag, constants with their value. It accepts the strict style of abi/membrane and nothing
else: what it does not know it refuses with file and line, because a construct that is skipped is a
construct that no digest covers. It writes nothing; derive.py does.
"""
import re

SCALARS = {'uint8_t': 1, 'int8_t': 1, 'uint16_t': 2, 'int16_t': 2, 'uint32_t': 4, 'int32_t': 4,
           'uint64_t': 8, 'int64_t': 8}
WORD_ALIASES = {'UINT64_MAX': 2**64 - 1, 'UINT32_MAX': 2**32 - 1}
POINTER_BYTES = 8  # the contract is defined for LP64

TOKEN = re.compile(r'''
    (?P<comment>/\*.*?\*/) |
    (?P<string>"[^"\n]*") |
    (?P<number>\d[0-9A-Za-z]*) |
    (?P<word>[A-Za-z_]\w*) |
    (?P<punct>[][(){};,*:=.&<>]) |
    (?P<space>\s+) |
    (?P<other>.)
''', re.X | re.S)


class Refused(Exception):
    """The header leaves the style; the text begins with file:line."""


class Token:
    def __init__(self, kind, text, line, end_line):
        self.kind, self.text, self.line, self.end_line = kind, text, line, end_line


class Field:
    def __init__(self, name, ctype, size, align, line, since, slot=None):
        self.name, self.ctype, self.size, self.align = name, ctype, size, align
        self.line, self.since, self.slot = line, since, slot
        self.offset = None


class Slot:
    def __init__(self, returns, parameters, tag):
        self.returns, self.parameters, self.tag = returns, parameters, tag


class Struct:
    def __init__(self, name, fields, where, since):
        self.name, self.fields, self.where, self.since = name, fields, where, since
        self.size = self.align = 0

    @property
    def growable(self):
        first = self.fields[0]
        return first.name == 'struct_size' and first.ctype == 'uint32_t'

    @property
    def is_vtable(self):
        return self.name.endswith('_vtable')

    def min_size(self, minor):
        """Bytes up to the end of the last field of this minor."""
        ends = [f.offset + f.size for f in self.fields if f.since <= minor]
        return max(ends) if ends else 0


class Contract:
    def __init__(self):
        self.structs = {}    # name -> Struct, in order of definition
        self.constants = {}  # name -> (value text, since)
        self.functions = {}  # typedef or prototype name -> (signature text, since)
        self.aliases = {}    # typedef of a scalar -> scalar
        self.opaque = set()
        self.ownership = []  # (file, creators, releasers, rule)
        self.vtable_file = {}

    @property
    def highest_minor(self):
        minors = [int(value) for name, (value, _) in self.constants.items()
                  if re.fullmatch(r'MBR_MINOR_\d+', name)]
        return max(minors, default=0)


def since_of(comments):
    found = re.findall(r'\bsince (\d+)\b', ' '.join(comments))
    return int(found[-1]) if found else 0


class Parser:
    def __init__(self, contract, path, text):
        self.contract, self.path = contract, path
        self.short = path.rsplit('/', 1)[-1]
        self.tokens = []
        self.position = 0
        self.tokenize(text)

    def refuse(self, line, what):
        raise Refused(f'{self.path}:{line}: {what}')

    # ---- tokens ------------------------------------------------------------------------------

    def tokenize(self, text):
        position, line, at_line_start = 0, 1, True
        while position < len(text):
            if at_line_start and text[position] == '#':
                end = self.directive_end(text, position)
                self.directive(text[position:end], line)
                line += text.count('\n', position, end)
                position = end
                continue
            match = TOKEN.match(text, position)
            kind, piece = match.lastgroup, match.group()
            end_line = line + piece.count('\n')
            if kind == 'other':
                self.refuse(line, f'unexpected character {piece!r}')
            if kind != 'space':
                self.tokens.append(Token(kind, piece, line, end_line))
                at_line_start = False
            elif '\n' in piece:
                at_line_start = True
            position, line = match.end(), end_line

    @staticmethod
    def directive_end(text, position):
        """A directive ends at the first newline that neither a backslash nor a comment covers."""
        while position < len(text):
            if text.startswith('/*', position):
                position = text.index('*/', position) + 2
            elif text.startswith('\\\n', position):
                position += 2
            elif text[position] == '\n':
                return position
            else:
                position += 1
        return position

    def directive(self, text, line):
        comments = re.findall(r'/\*.*?\*/', text, re.S)
        bare = re.sub(r'/\*.*?\*/', ' ', text, flags=re.S).replace('\\\n', ' ').strip()
        if re.fullmatch(r'#include (<std(def|int)\.h>|"membrane/\w+\.h")', bare):
            return
        if bare in ('#ifdef __cplusplus', '#endif') or bare.startswith('#ifndef MEMBRANE_'):
            return
        match = re.fullmatch(r'#define (\w+)(\([^)]*\))?\s*(.*)', bare, re.S)
        if not match:
            self.refuse(line, f'directive outside the style: {bare.splitlines()[0]}')
        name, parameters, value = match.groups()
        if parameters is not None or value.startswith('__attribute__'):
            return  # a macro of the author's kit: it has no layout and no value
        if re.fullmatch(r'MEMBRANE_\w+_H', name) and value == '':
            return
        self.constant(name, value, line, since_of(comments))

    def constant(self, name, value, line, since):
        if not name.startswith('MBR_'):
            self.refuse(line, f'{name}: a constant begins with MBR_')
        if value in WORD_ALIASES:
            value = str(WORD_ALIASES[value])
        if not re.fullmatch(r'\d+|0x[0-9a-fA-F]+|"[^"]*"', value):
            self.refuse(line, f'{name}: {value!r} is neither a whole number nor a string')
        if not value.startswith('"'):
            value = str(int(value, 0))
        if name in self.contract.constants:
            self.refuse(line, f'{name} is defined twice')
        self.contract.constants[name] = (value, since)

    # ---- reading on --------------------------------------------------------------------------

    def peek(self):
        while self.position < len(self.tokens) and self.tokens[self.position].kind == 'comment':
            self.position += 1
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    def take(self, text=None, kind=None):
        token = self.peek()
        if token is None:
            self.refuse(self.tokens[-1].end_line, f'file ends where {text or kind} was expected')
        if (text and token.text != text) or (kind and token.kind != kind):
            self.refuse(token.line, f'{token.text!r} where {text or kind!r} was expected')
        self.position += 1
        return token

    def comments_around(self, start, end):
        """The comments that speak of the declaration in tokens [start, end): those before it that
        do not trail an earlier declaration, and the one that trails its last line."""
        found, index = [], start - 1
        while index >= 0 and self.tokens[index].kind == 'comment':
            before = self.tokens[index - 1] if index > 0 else None
            trails = before and before.kind != 'comment' and before.end_line == self.tokens[index].line
            if trails and before.text != '{':
                break
            found.insert(0, self.tokens[index].text)
            index -= 1
        found += [t.text for t in self.tokens[start:end] if t.kind == 'comment']
        if end < len(self.tokens) and self.tokens[end].kind == 'comment' and \
                self.tokens[end].line == self.tokens[end - 1].line:
            found.append(self.tokens[end].text)
        return found

    # ---- declarations ------------------------------------------------------------------------

    def parse(self):
        self.read_ownership()
        depth = 0
        while (token := self.peek()) is not None:
            if token.text == 'extern':
                self.take('extern')
                self.take('"C"')
                self.take('{')
                depth += 1
            elif token.text == '}' and depth > 0:
                self.take('}')
                depth -= 1
            elif token.text == 'typedef':
                self.typedef()
            elif token.text == 'struct':
                self.take('struct')
                self.struct_body(self.take(kind='word'), closing_name=False)
            elif token.text == 'MBR_EXPORT':
                self.prototype()
            else:
                self.refuse(token.line, f'declaration outside the style: {token.text!r}')

    def typedef(self):
        start = self.position
        self.take('typedef')
        token = self.take(kind='word')
        if token.text == 'struct':
            name = self.take(kind='word')
            if self.peek().text == '{':
                self.struct_body(name, closing_name=True)
                return
            alias = self.take(kind='word')
            self.take(';')
            if alias.text != name.text:
                self.refuse(alias.line, f'{alias.text} hides struct {name.text}')
            self.contract.opaque.add(name.text)
        elif token.text in SCALARS:
            name = self.take(kind='word')
            self.take(';')
            self.contract.aliases[name.text] = token.text
        elif self.peek().text == '(':
            self.take('(')
            self.take('*')
            name = self.take(kind='word')
            self.take(')')
            self.function(name, token, start)
        elif token.text == 'void' or token.text in self.contract.aliases:
            self.refuse(token.line, f'typedef of {token.text}')
        else:
            self.refuse(token.line, f'type {token.text!r} is not allowed (rule 14): use a '
                        'fixed-width integer, a struct of the contract, or a pointer')

    def prototype(self):
        start = self.position
        self.take('MBR_EXPORT')
        returns = self.take(kind='word')
        self.function(self.take(kind='word'), returns, start)

    def function(self, name, returns, start):
        if returns.text != 'void' and returns.text not in self.contract.aliases:
            self.refuse(returns.line, f'{name.text} returns {returns.text!r}')
        parameters = self.parameters()
        self.take(';')
        since = since_of(self.comments_around(start, self.position))
        signature = f'{returns.text} ({", ".join(t for t, _ in parameters)})'
        self.contract.functions[name.text] = (signature, since)

    def ctype(self):
        """A type up to the declared name: (text, size, align, base struct or None)."""
        constant = self.peek().text == 'const'
        if constant:
            self.take('const')
        base = self.take(kind='word')
        stars = 0
        while self.peek().text == '*':
            self.take('*')
            stars += 1
        text = ('const ' if constant else '') + base.text + (' ' + '*' * stars if stars else '')
        structs, aliases = self.contract.structs, self.contract.aliases
        known = base.text in SCALARS or base.text in aliases or base.text in structs
        if stars:
            if not known and base.text not in ('void', 'char') and \
                    base.text not in self.contract.opaque and \
                    base.text not in self.contract.functions:
                self.refuse(base.line, f'pointer to {base.text!r}, which is no type of the contract')
            return text, POINTER_BYTES, POINTER_BYTES, None
        if base.text in self.contract.functions:
            return text, POINTER_BYTES, POINTER_BYTES, None
        if base.text in structs:
            return text, structs[base.text].size, structs[base.text].align, structs[base.text]
        if base.text == 'char':
            return text, 1, 1, None
        if not known:
            self.refuse(base.line, f'type {base.text!r} is not allowed (rule 14): use a fixed-width '
                        'integer, a struct of the contract, or a pointer')
        size = SCALARS[aliases.get(base.text, base.text)]
        return text, size, size, None

    def parameters(self):
        self.take('(')
        found = []
        while True:
            text, _, _, struct = self.ctype()
            name = self.take(kind='word')
            if struct is not None:
                self.refuse(name.line, f'{name.text}: a struct is passed by value')
            found.append((text, name.text))
            if self.peek().text == ')':
                break
            self.take(',')
        self.take(')')
        return found

    def struct_body(self, name, closing_name):
        head = self.position - (3 if closing_name else 2)  # at `typedef struct NAME` or `struct NAME`
        since = since_of(self.comments_around(head, self.position))
        self.take('{')
        fields = []
        while self.peek().text != '}':
            fields.append(self.field(name.text))
        self.take('}')
        if closing_name and self.take(kind='word').text != name.text:
            self.refuse(name.line, f'struct {name.text} and its typedef differ')
        self.take(';')
        if not fields:
            self.refuse(name.line, f'{name.text} is empty')
        if name.text in self.contract.structs:
            self.refuse(name.line, f'{name.text} is defined twice')
        for field in fields:
            field.since = max(field.since, since)
        since = min(f.since for f in fields)
        struct = Struct(name.text, fields, f'{self.path}:{name.line}', since)
        self.lay_out(struct)
        self.contract.structs[name.text] = struct
        self.contract.vtable_file[name.text] = self.short

    def field(self, struct_name):
        first = self.peek()
        start = self.position  # peek skipped comments
        text, size, align, struct = self.ctype()
        if self.peek().text == '(':
            return self.slot(struct_name, text, first, start)
        name = self.take(kind='word')
        if self.peek().text == ':':
            self.refuse(name.line, f'{struct_name}.{name.text} is a bit-field (rule 14)')
        if text == 'char' and self.peek().text != '[':
            self.refuse(name.line, f'{struct_name}.{name.text}: a char stands only in an array')
        if self.peek().text == '[':
            self.take('[')
            if self.peek().text == ']':
                self.refuse(name.line, f'{struct_name}.{name.text} is a flexible array (rule 14)')
            count = self.array_count(self.take())
            self.take(']')
            if struct is not None and struct.growable:
                self.refuse(name.line, f'{struct_name}.{name.text}: a growable struct in an array '
                            '(rule 11)')
            text, size = f'{text}[{count}]', size * count
        if struct is not None and struct.growable:
            self.refuse(name.line, f'{struct_name}.{name.text}: a growable struct by value (rule 11)')
        if self.peek().text == ',':
            self.refuse(name.line, f'{struct_name}.{name.text}: one declaration a field')
        self.take(';')
        since = since_of(self.comments_around(start, self.position))
        return Field(name.text, text, size, align, name.line, since)

    def array_count(self, token):
        text = token.text
        if text in self.contract.constants:
            text = self.contract.constants[text][0]
        if not re.fullmatch(r'\d+', text) or int(text) == 0:
            self.refuse(token.line, f'array length {token.text!r} is no constant above 0')
        return int(text)

    def slot(self, struct_name, returns, first, start):
        self.take('(')
        self.take('*')
        name = self.take(kind='word')
        self.take(')')
        where = f'{struct_name}.{name.text}'
        parameters = self.parameters()
        self.take(';')
        comments = ' '.join(self.comments_around(start, self.position))
        comments = re.sub(r'\s*\n\s*\*?\s*', ' ', comments)
        tags = re.findall(r'\[(any-thread|serial: [a-z_]+)\]', comments)
        if len(tags) != 1:
            self.refuse(first.line, f'slot {where} has {len(tags)} thread tags; exactly one of '
                        '[any-thread] and [serial: OBJECT] is wanted (rule 25)')
        self.check_signature(where, returns, parameters, name.line)
        signature = f'{returns} ({", ".join(t for t, _ in parameters)})'
        slot = Slot(returns, [t for t, _ in parameters], tags[0])
        return Field(name.text, signature, POINTER_BYTES, POINTER_BYTES, name.line,
                     since_of([comments]), slot)

    def check_signature(self, where, returns, parameters, line):
        types = [t for t, _ in parameters]
        right = returns == 'mbr_status' and len(types) == 4 and \
            types[0] == 'mbr_instance *' and types[3] == 'mbr_error *' and \
            types[1].startswith('const ') and not types[2].startswith('const ')
        if not right:
            self.refuse(line, f'slot {where} is not mbr_status (mbr_instance *, const request *, '
                        'outcome *, mbr_error *) (rule 1)')
        for text in types[1:3]:
            struct = self.contract.structs.get(text.replace('const ', '').replace(' *', ''))
            if struct is None or not struct.growable:
                self.refuse(line, f'slot {where}: {text} points to no growable struct (rule 1)')

    # ---- layout ------------------------------------------------------------------------------

    def lay_out(self, struct):
        offset, highest = 0, 0
        for field in struct.fields:
            where = f'{struct.name}.{field.name}'
            if field.since < highest:
                self.refuse(field.line, f'{where} is of minor {field.since} and stands after one of '
                            f'minor {highest}: a newer field is appended (rule 12)')
            highest = field.since
            gap = -offset % field.align
            if gap:
                self.refuse(field.line, f'{where} is preceded by {gap} bytes of unnamed padding; '
                            'name them reserved_N (rule 14)')
            field.offset = offset
            offset += field.size
            struct.align = max(struct.align, field.align)
        if highest != struct.since and not struct.growable:
            self.refuse(struct.fields[-1].line, f'{struct.name} has no struct_size and so is frozen: '
                        'it cannot get a newer field (rule 11)')
        for minor in range(struct.since, highest + 1):
            gap = -struct.min_size(minor) % struct.align
            if gap:
                self.refuse(struct.fields[-1].line, f'{struct.name} of minor {minor} ends with {gap} '
                            'bytes of unnamed padding; name them reserved_N (rule 14)')
        struct.size = offset
        if struct.is_vtable:
            self.check_vtable(struct)

    def check_vtable(self, struct):
        head = [(f.name, f.ctype) for f in struct.fields[:3]]
        if head != [('struct_size', 'uint32_t'), ('kind', 'uint16_t'), ('minor', 'uint16_t')]:
            self.refuse(struct.fields[0].line, f'{struct.name} does not begin with struct_size, '
                        'kind, minor (rule 10)')

    def read_ownership(self):
        """The `created by / released by / thread` lines of the file's head comment (rule 23)."""
        if not self.tokens or self.tokens[0].kind != 'comment':
            return
        inside = False
        for line in self.tokens[0].text.splitlines():
            columns = [c for c in re.split(r'\s{2,}', line.strip().lstrip('*/').strip()) if c]
            if columns[:2] == ['created by', 'released by']:
                inside = True
            elif inside and len(columns) == 3:
                creators, releasers, rule = columns
                self.contract.ownership.append(
                    (self.short, creators.split(', '), releasers.split(', '), rule))
            else:
                inside = False


def includes_of(text):
    return re.findall(r'#include "membrane/(\w+)\.h"', text)


def parse_headers(folder, names):
    """Parses headers in an order in which each comes after those that it includes."""
    texts = {}
    for name in names:
        with open(f'{folder}/{name}.h', encoding='utf-8') as file:
            texts[name] = file.read()
    contract, done = Contract(), set()

    def visit(name):
        if name in done or name not in texts:
            return
        done.add(name)
        for other in includes_of(texts[name]):
            visit(other)
        Parser(contract, f'{folder}/{name}.h', texts[name]).parse()

    for name in names:
        visit(name)
    check_ownership(contract, folder)
    return contract


def check_ownership(contract, folder):
    slots = {f.name for s in contract.structs.values() for f in s.fields if f.slot}
    for file, creators, releasers, _ in contract.ownership:
        for name in creators + releasers:
            if name not in slots:
                raise Refused(f'{folder}/{file}:1: the ownership table names {name!r}, '
                              'which is no slot (rule 23)')
