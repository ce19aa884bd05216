"""Language of constraints in a domain file: conditions on the table's own values, parsed and never
executed.

    hours <= 80
    `capital-gain` == 0 or `capital-loss` == 0
    when  relationship in ['Husband', 'Wife']       then  marital == 'Married'
    when  age < 16                                  then  hours == 0 and work == 'None'

A name is an attribute, in backticks unless it is a plain word (a backtick within it is doubled).
The language has numbers, 'words' for categories, == != < <= > >= (also chained), in and not in with
a list, and, or, not, + - * / and parentheses. A category that the table holds as a number counts as
a number, a binned number as the start of its bin. A row with a gap in an attribute that a rule uses
obeys the rule. No comparison with a division by zero holds.
"""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass
from typing import Any

from fairprobe.errors import DomainError, suggest
from fairprobe.schema.attributes import Constraint
from fairprobe.schema.coding import Coding
from fairprobe.schema.conditions import (
    MIRRORED,
    Arithmetic,
    Both,
    Category,
    Comparison,
    Condition,
    Constant,
    Either,
    Not,
    Number,
    OneOfCategories,
    OneOfNumbers,
    Quantity,
    Rule,
)

LONGEST = 10_000  # characters of a rule
QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`((?:[^`]|``)+)`""", re.DOTALL)
STAND_IN = "_attribute_{}_"

COMPARISONS = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
OPERATIONS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


@dataclass(frozen=True)
class RuleText:
    """Constraint as it is written: a `rule`, or a condition `then` that must hold `when` another
    holds.
    """

    name: str
    rule: str | None = None
    when: str | None = None
    then: str | None = None


@dataclass(frozen=True)
class WrittenConstraint(Constraint):
    """Constraint that was read from text, which it keeps."""

    text: RuleText | None = None


def constraint_of(text: RuleText, coding: Coding) -> WrittenConstraint:
    """Return the constraint that the text describes, with a repair where the text implies one."""
    name, then = text.name, text.then
    if (text.rule is None) == (then is None) or (text.when is None) != (then is None):
        raise DomainError(
            f"Constraint '{name}' needs either `rule`, or `when` together with `then`."
        )
    rule = Rule(
        when=None if text.when is None else _Reader(name, "when", text.when, coding).condition(),
        then=(
            _Reader(name, "rule", text.rule or "", coding)
            if then is None
            else _Reader(name, "then", then, coding)
        ).condition(),
    )
    return WrittenConstraint(name, rule.holds, rule.repair if rule.then.repairable else None, text)


class _Reader:
    """Parses one condition and finds the attributes and categories that it names."""

    def __init__(self, name: str, part: str, text: str, coding: Coding) -> None:
        self.where = f"Constraint '{name}', {part}"
        self.coding = coding
        self.stand_ins: dict[str, str] = {}
        self.text = text

    def condition(self) -> Condition:
        if len(self.text) > LONGEST:
            raise self.error(
                f"the text has {len(self.text):,} characters; at most {LONGEST:,} are read"
            )
        if not self.text.strip():
            raise self.error("the text is empty")
        plain = QUOTED.sub(self._stand_in, self.text).replace("\n", " ").strip()
        if "`" in plain:
            raise self.error("a backtick is not closed")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about a backslash that escapes nothing
                return self._condition(ast.parse(plain, mode="eval").body)
        except SyntaxError as error:
            raise self.error(f"cannot be read ({error.msg}): {self.text.strip()!r}") from error
        except (ValueError, RecursionError, MemoryError) as error:
            if isinstance(error, DomainError):
                raise
            raise self.error(f"cannot be read ({error})") from error

    def _stand_in(self, found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0].replace("\n", "\\n")
        word = STAND_IN.format(len(self.stand_ins))
        self.stand_ins[word] = found[1].replace("``", "`")
        return word

    def error(self, complaint: str) -> DomainError:
        return DomainError(f"{self.where}: {complaint}.")

    def shown(self, node: ast.AST) -> str:
        text = ast.unparse(node)
        for word, name in self.stand_ins.items():
            text = text.replace(word, f"`{name}`")
        return text

    # -- conditions --------------------------------------------------------------------------------

    def _condition(self, node: ast.expr) -> Condition:
        match node:
            case ast.BoolOp(op, values):
                parts = tuple(map(self._condition, values))
                return Both(parts) if isinstance(op, ast.And) else Either(parts)
            case ast.UnaryOp(ast.Not(), operand):
                return Not(self._condition(operand))
            case ast.Compare(left, ops, comparators):
                sides = [left, *comparators]
                parts = tuple(
                    self._comparison(sides[place], op, sides[place + 1])
                    for place, op in enumerate(ops)
                )
                return parts[0] if len(parts) == 1 else Both(parts)
        raise self.error(
            f"{self.shown(node)} is not a condition; compare it with something, as in `age <= 60`"
        )

    def _comparison(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Condition:
        if isinstance(op, ast.In | ast.NotIn):
            inside = self._one_of(left, right)
            return inside if isinstance(op, ast.In) else Not(inside)
        sign = COMPARISONS.get(type(op))
        if sign is None:
            raise self.error("`is` is not supported; write == or !=")
        first, second = self._side(left), self._side(right)
        if isinstance(second, Category) and not isinstance(first, Category):
            first, second, sign = second, first, MIRRORED[sign]
        if isinstance(first, Category):
            return self._category(first, sign, second)
        if not isinstance(first, Quantity) or not isinstance(second, Quantity):
            word = first if not isinstance(first, Quantity) else second
            raise self.error(
                f"{word!r} is compared with a number; a word can only be compared with a category"
            )
        return Comparison(sign, first, second)

    def _category(self, category: Category, sign: str, value: Any) -> Condition:
        if isinstance(value, Category):
            raise self.error(
                f"'{category.name}' and '{value.name}' are both categories, which are compared with"
                " words only"
            )
        if sign not in ("==", "!="):
            raise self.error(
                f"'{category.name}' is a category; it can be compared by ==, != and in, not by"
                f" {sign}"
            )
        if isinstance(value, Quantity):
            raise self.error(
                f"'{category.name}' is a category; compare it with the name of one, such as"
                f" '{category.names[0]}'"
            )
        inside = OneOfCategories(category, (self._code(category, value),))
        return inside if sign == "==" else Not(inside)

    def _one_of(self, left: ast.expr, right: ast.expr) -> Condition:
        if not isinstance(right, ast.List | ast.Tuple | ast.Set) or not right.elts:
            raise self.error("`in` needs a list, such as ['a', 'b'] or [1, 2]")
        side, values = self._side(left), [self._side(element) for element in right.elts]
        if isinstance(side, Category):
            words = [value for value in values if isinstance(value, str | bool)]
            if len(words) < len(values):
                raise self.error(
                    f"'{side.name}' is a category; the list must hold names of its categories"
                )
            return OneOfCategories(side, tuple(self._code(side, word) for word in words))
        if not isinstance(side, Quantity) or not all(
            isinstance(value, Constant) for value in values
        ):
            raise self.error(
                f"{self.shown(left)} in {self.shown(right)} must look for an attribute in a list of"
                " plain values"
            )
        return OneOfNumbers(
            side, tuple(value.value for value in values if isinstance(value, Constant))
        )

    def _code(self, category: Category, value: str | bool) -> int:
        if isinstance(value, bool):
            value = str(value)
        if value not in category.names:
            advice = suggest(value, category.names)
            raise self.error(f"'{value}' is not a category of '{category.name}'.{advice}"[:-1])
        return category.names.index(value)

    # -- what is compared --------------------------------------------------------------------------

    def _side(self, node: ast.expr) -> Quantity | Category | str | bool:
        """Return a number, an attribute, or a word (True and False are words of categories)."""
        match node:
            case ast.Name(id=word):
                return self._attribute(self.stand_ins.get(word, word))
            case ast.Constant(value=bool() | str() as value):
                return value
            case ast.Constant(value=int() | float() as value) if abs(value) < float("inf"):
                return Constant(float(value))
            case ast.UnaryOp(ast.USub(), operand):
                return (
                    Arithmetic("-", Constant(0.0), self._number(operand))
                    if not isinstance(operand, ast.Constant)
                    else self._negative(operand)
                )
            case ast.BinOp(left, op, right) if type(op) in OPERATIONS:
                return Arithmetic(OPERATIONS[type(op)], self._number(left), self._number(right))
        raise self.error(
            f"{self.shown(node)} is not part of the language; there are attributes, numbers,"
            " 'words', + - * / and comparisons"
        )

    def _negative(self, node: ast.expr) -> Constant:
        value = self._number(node)
        if not isinstance(value, Constant):
            raise self.error(f"-{self.shown(node)} is not a number")
        return Constant(-value.value)

    def _number(self, node: ast.expr) -> Quantity:
        side = self._side(node)
        if isinstance(side, Category):
            raise self.error(f"'{side.name}' is a category; nothing can be calculated with it")
        if not isinstance(side, Quantity):
            raise self.error(f"{side!r} is not a number; nothing can be calculated with it")
        return side

    def _attribute(self, name: str) -> Number | Category:
        domain = self.coding.domain
        if name not in domain.names:
            raise self.error(f"there is no attribute '{name}'.{suggest(name, domain.names)}"[:-1])
        attribute, own = domain[name], self.coding.values.get(name, ())
        if attribute.kind == "categorical" and not (
            own
            and all(isinstance(value, int | float) and not isinstance(value, bool) for value in own)
        ):
            return Category(name, attribute.categories)
        return Number(attribute, tuple(float(value) for value in own))
