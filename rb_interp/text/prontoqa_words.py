"""Words of PrOntoQA and how its sentences are put together (Saparov & He 2023, v1 of the generator).

A sentence states one fact, a ``Statement``. Three forms say it of every member of a concept ("Wumpuses are hot.",
"Each wumpus is hot.", "Every wumpus is hot."), one of a single entity ("Max is hot.").
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

ENTITIES = ("Fae", "Rex", "Sally", "Max", "Alex", "Sam", "Polly", "Stella", "Wren")
PRIME_ENTITIES = ("3", "7", "31", "127", "8191", "131071")
CONCEPTS = ("wumpus", "yumpus", "zumpus", "dumpus", "rompus", "numpus", "tumpus", "vumpus", "impus", "jompus")

# Sentences about all members of a concept: half plural, a quarter each of the others.
PLURAL, EACH, EVERY, GROUND = "plural", "Each", "Every", "ground"

FAMILIES = (
    ("blue", "red", "brown", "orange"),
    ("small", "large"),
    ("metallic", "wooden", "luminous", "liquid"),
    ("transparent", "opaque"),
    ("nervous", "happy", "feisty", "shy"),
    ("bright", "dull"),
    ("sweet", "sour", "spicy", "bitter"),
    ("floral", "fruity", "earthy"),
    ("hot", "cold", "temperate"),
    ("kind", "mean", "angry", "amenable", "aggressive"),
)

FALSE_CONCEPTS = (
    ("animal", "vertebrate", "mammal", "carnivore", "feline", "cat", "dog", "sheep", "cow", "snake"),
    (
        *("animal", "invertebrate", "arthropod", "insect", "lepidopteran"),
        *("butterfly", "moth", "ant", "spider", "crustacean"),
    ),
    (
        *("number", "real number", "integer", "natural number", "prime number"),
        *("Mersenne prime", "even number", "composite number", "negative number", "fraction"),
    ),
)

# Root first; the number is the least count of hops for which the concept is part of the chain.
TRUE_CHAINS = (
    (
        *(("animal", 1), ("bilaterian", 4), ("chordate", 4), ("vertebrate", 1), ("mammal", 1)),
        *(("carnivore", 1), ("feline", 1), ("cat", 1), ("tabby", 5)),
    ),
    (
        *(("animal", 1), ("invertebrate", 1), ("protostome", 5), ("arthropod", 1), ("insect", 1)),
        *(("lepidopteran", 1), ("butterfly", 1), ("painted lady", 5)),
    ),
    (
        *(("number", 1), ("real number", 1), ("integer", 1)),
        *(("natural number", 1), ("prime number", 1), ("Mersenne prime", 1)),
    ),
)
NUMBER_CHAIN = 2

# What is true of each concept, as (word, negated); a concept not listed has no property.
TRUE_PROPERTIES: dict[str, tuple[tuple[str, bool], ...]] = {
    "animal": (("multicellular", False), ("unicellular", True)),
    "mammal": (("furry", False), ("warm-blooded", False), ("cold-blooded", True)),
    "carnivore": (("carnivorous", False), ("herbivorous", True)),
    "arthropod": (("segmented", False), ("small", False), ("bony", True)),
    "insect": (("six-legged", False), ("eight-legged", True)),
    "real number": (("real", False), ("imaginary", True)),
    "natural number": (("positive", False), ("negative", True)),
    "prime number": (("prime", False), ("composite", True)),
    "Mersenne prime": (("prime", False), ("composite", True)),
}
# The two words of the true ontology that two concepts of one chain can share.
SHARED_PROPERTIES = ("prime", "composite")

# Of whom the contradicting rule speaks in the true ontology, by property.
CONTRADICTED_BY = {
    "multicellular": "bacteria",
    "unicellular": "bacteria",
    "furry": "snake",
    "warm-blooded": "snake",
    "cold-blooded": "snake",
    "carnivorous": "sheep",
    "herbivorous": "sheep",
    "segmented": "nematode",
    "small": "whale",
    "bony": "whale",
    "six-legged": "spider",
    "eight-legged": "spider",
    "real": "imaginary number",
    "imaginary": "complex number",
    "positive": "negative number",
    "negative": "negative number",
    "prime": "composite number",
    "composite": "composite number",
}

# Later versions of the generator use more words; they are read, never generated.
_LATER_PROPERTIES = (
    *("melodic", "muffled", "discordant", "loud", "slow", "moderate", "fast"),
    *("windy", "sunny", "overcast", "rainy", "snowy"),
)
_PUS = """
timpus yimpus carpus shumpus zhompus rempus fompus fimpus worpus sorpus terpus gerpus sterpus kerpus sherpus perpus
bompus orpus welpus jelpus felpus dolpus sarpus irpus chorpus parpus arpus lempus hilpus gompus dalpus umpus rifpus
storpus shalpus yerpus ilpus boompus scrompus phorpus prilpus gwompus urpus grimpus shilpus zhorpus rorpus dropus
lerpus quimpus zilpus frompus stirpus porpus kurpus shampus werpus zhimpus yempus jempus folpus drompus delpus lompus
wolpus gorpus shimpus rimpus twimpus serpus daumpus thorpus borpus rofpus bempus dulpus harpus lirpus yompus stopus
lorpus brimpus
"""
_OTHER_SUFFIXES = """
timple yimple starple shumple zhomple remple fomple fimple worple sorple tergit gergit stergit kergit shergit pergit
bongit orgit welgit jelgit felper dolper sarper irper chorper parper arper lemper hilper gomper dalpist umpist rifpist
storpist shalpist yerpist ilpist boompist scrompist phorpist prilpant gwompant urpant grimpant shilpant zhorpant rorpant
dropant lerpant quimpant zilpor frompor stirpor porpor kurpor shampor werpor zhimpor yempor jempor folpee drompee delpee
lompee wolpee gorpee shimpee rimpee twimpee serpee daumpin thorpin borpin rofpin bempin dulpin harpin lirpin yompin
stopin
"""
_REAL = """
animal bilaterian chordate vertebrate mammal carnivore feline cat insect reptile snake cow dog invertebrate protostome
arthropod lepidopteran mullosc nematode whale crustacean spider ant moth plant angiosperm eudicot rosid rose conifer
cabbage asterid carrot number integer function fraction
"""
_NUMBERS = "real natural prime imaginary complex negative composite even"
_REAL_OF_TWO_WORDS = ("vascular plant", "Mersenne prime", *(f"{kind} number" for kind in _NUMBERS.split()))
_IRREGULAR = {
    "worpus": "worpus",
    "sorpus": "sorpus",
    "bacteria": "bacteria",
    "sheep": "sheep",
    "tabby": "tabbies",
    "butterfly": "butterflies",
    "painted lady": "painted ladies",
    "fish": "fishes",
    "moss": "mosses",
}


def _plural(noun: str) -> str:
    return _IRREGULAR.get(noun) or noun + ("es" if noun.endswith("pus") else "s")


# Singular -> plural of every concept that can be read.
PLURALS = {
    noun: _plural(noun)
    for noun in (
        *(*CONCEPTS, *_PUS.split(), *_OTHER_SUFFIXES.split()),
        *(*_REAL.split(), *_REAL_OF_TWO_WORDS, *_IRREGULAR),
    )
}
# Every property that can be read.
PROPERTIES = frozenset(
    (
        *(word for family in FAMILIES for word in family),
        *(word for literals in TRUE_PROPERTIES.values() for word, _ in literals),
        *_LATER_PROPERTIES,
    )
)


class Statement(NamedTuple):
    """One fact: of a concept (``form`` plural, Each or Every) or of one entity (``form`` ground).

    Attributes:
        subject: a concept in the singular, or an entity.
        predicate: a concept in the singular, or a property.
        negated: whether the sentence says "not".
        form: ``"plural"``, ``"Each"``, ``"Every"`` or ``"ground"``.

    >>> fact = Statement("wumpus", "impus", False, "plural")
    >>> fact.sentence, fact._replace(form="Each").sentence, fact.of("Max").sentence
    ('Wumpuses are impuses.', 'Each wumpus is an impus.', 'Max is an impus.')
    """

    subject: str
    predicate: str
    negated: bool
    form: str

    @property
    def sentence(self) -> str:
        """The sentence that says it."""
        return _sentence(*self)

    @property
    def is_rule(self) -> bool:
        """Whether it speaks of all members of a concept."""
        return self.form != GROUND

    @property
    def names_concept(self) -> bool:
        """Whether the predicate is a concept, not a property."""
        return self.predicate in PLURALS

    def of(self, entity: str) -> Statement:
        """The same predicate said of one entity."""
        return Statement(entity, self.predicate, self.negated, GROUND)

    def denied(self) -> Statement:
        """The opposite statement; a double negation is removed."""
        return self._replace(negated=not self.negated)


def with_article(noun: str) -> str:
    """The noun after "a" or "an": "an" before a, e, i, o and u, "a" otherwise and before "eu".

    >>> [with_article(noun) for noun in ("impus", "real number", "eudicot")]
    ['an impus', 'a real number', 'a eudicot']
    """
    return f"an {noun}" if noun[0] in "aeiou" and not noun.startswith("eu") else f"a {noun}"


@lru_cache(maxsize=65536)
def _sentence(subject: str, predicate: str, negated: bool, form: str) -> str:
    maybe_not = "not " if negated else ""
    if form == PLURAL:
        words = f"{PLURALS[subject]} are {maybe_not}{PLURALS.get(predicate, predicate)}."
        return words[0].upper() + words[1:]
    what = with_article(predicate) if predicate in PLURALS else predicate
    who = subject if form == GROUND else f"{form} {subject}"
    return f"{who} is {maybe_not}{what}."
