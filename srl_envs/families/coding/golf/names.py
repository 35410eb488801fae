"""Python's own names that a golf program may use; every other name is the program's own.

The lists are fixed, so a program has the same form under every version of Python. Not on them is
whatever turns text into code or reaches an object by the text of its name: ``eval``, ``getattr``,
``attrgetter``, ``namedtuple``, ``singledispatch`` (it evaluates annotations), frames, code objects, and
``type`` (also as ``typing.Type``): it makes classes whose ``__match_args__`` are texts.
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


BUILTINS = _words(
    """
    abs all any ascii bin bool bytearray bytes callable chr classmethod complex dict divmod
    enumerate filter float format frozenset hash hex id int isinstance issubclass iter len list map
    max min next object oct ord pow print property range repr reversed round set slice sorted
    staticmethod str sum super tuple zip Ellipsis NotImplemented ArithmeticError AssertionError
    AttributeError BaseException Exception IndexError KeyError LookupError NameError
    NotImplementedError OverflowError RecursionError RuntimeError StopIteration TypeError
    UnicodeError ValueError ZeroDivisionError
    """
)
"""Names that a program may read without binding them."""

MODULES: dict[str, frozenset[str]] = {
    name: _words(members)
    for name, members in {
        "bisect": "bisect bisect_left bisect_right insort insort_left insort_right",
        "collections": "ChainMap Counter OrderedDict defaultdict deque",
        "datetime": "MAXYEAR MINYEAR UTC date datetime time timedelta timezone",
        "fractions": "Fraction",
        "functools": "cache cached_property cmp_to_key lru_cache partial reduce total_ordering",
        "heapq": "heapify heappop heappush heappushpop heapreplace merge nlargest nsmallest",
        "itertools": "accumulate batched chain combinations combinations_with_replacement compress "
        "count cycle dropwhile filterfalse groupby islice pairwise permutations product repeat "
        "starmap takewhile tee zip_longest",
        "math": "acos acosh asin asinh atan atan2 atanh cbrt ceil comb copysign cos cosh degrees dist "
        "e erf erfc exp exp2 expm1 fabs factorial floor fmod frexp fsum gamma gcd hypot inf isclose "
        "isfinite isinf isnan isqrt lcm ldexp lgamma log log10 log1p log2 modf nan nextafter perm pi "
        "pow prod radians remainder sin sinh sqrt sumprod tan tanh tau trunc ulp",
        "operator": "abs add and_ concat contains countOf delitem eq floordiv ge getitem gt iadd iand "
        "iconcat ifloordiv ilshift imod imul index indexOf inv invert ior ipow irshift is_ is_not isub "
        "itemgetter itruediv ixor le lshift lt matmul mod mul ne neg not_ or_ pos pow rshift setitem "
        "sub truediv truth xor",
        "re": "A ASCII DOTALL I IGNORECASE M MULTILINE S VERBOSE X escape findall finditer fullmatch "
        "match search split sub subn",
        "typing": "Any Callable Collection Counter DefaultDict Deque Dict Final FrozenSet Generator "
        "Generic Hashable Iterable Iterator List Literal Mapping MutableMapping MutableSequence "
        "MutableSet NoReturn Optional OrderedDict Sequence Set Sized Text Tuple TypeVar Union "
        "cast",
    }.items()
}
"""What may be imported: modules, and of each what may be taken from it."""

SPECIAL = frozenset(
    f"__{name}__"
    for name in _words(
        """
    abs add and bool call contains delitem enter eq exit float floordiv ge getitem gt hash iadd iand
    imul index init int invert ior isub iter ixor le len lshift lt matmul missing mod mul ne neg new
    next or pos pow radd rand repr reversed rfloordiv rmod rmul ror rpow rshift rsub rtruediv rxor
    setitem str sub truediv xor
    """
    )
)
"""Special methods that a class may define; the other names with two underscores are refused."""

METHODS = _words(
    """
    append appendleft as_integer_ratio bit_count bit_length cache_clear capitalize casefold center
    clear close combine conjugate copy count ctime day days decode default_factory denominator
    difference difference_update discard elements encode end endswith expand expandtabs extend
    extendleft find format from_bytes from_iterable fromhex fromisocalendar fromisoformat fromkeys
    fromordinal get group groupdict groups hex hour imag index indices insert intersection
    intersection_update is_integer isalnum isalpha isascii isdecimal isdigit isdisjoint isidentifier
    islower isnumeric isocalendar isoformat isoweekday isprintable isspace issubset issuperset
    istitle isupper items join keys lastindex limit_denominator ljust lower lstrip maketrans max
    maxlen microsecond min minute month most_common move_to_end numerator partition pop popitem
    popleft pos real remove removeprefix removesuffix replace resolution reverse rfind rindex rjust
    rotate rpartition rsplit rstrip second seconds send setdefault setter sort span split splitlines
    start startswith step stop strftime strip strptime subtract swapcase symmetric_difference
    symmetric_difference_update throw timetuple title to_bytes toordinal total total_seconds
    translate tm_hour tm_isdst tm_mday tm_min tm_mon tm_sec tm_wday tm_yday tm_year union update
    upper values week weekday year zfill
    """
).union(*MODULES.values())
"""Attributes that a program may read without setting them: of values, and of the modules."""

KEYWORDS = _words(
    """
    base byteorder chars count day days default encoding end errors fillvalue flags hi hour hours
    initial iterable keepends key length lo maxlen maxsize maxsplit microsecond microseconds
    milliseconds minute minutes month n name old new r repeat reverse second seconds sep signed
    start step stop strict string tabsize times typed weeks width year
    """
)
"""Names of arguments of these functions and methods."""

NAMES = BUILTINS | METHODS | KEYWORDS | SPECIAL
"""Every name that keeps its meaning."""
