"""An oracle: records as the original generator of PrOntoQA writes them, with its own words.

Written from a description of it (``random.Random`` in place of its draws). It shares nothing with the
package: plurals and articles stand in a table. ``true`` and ``false`` are the ontologies of real
words; ``relevant`` and ``irrelevant`` distractors are those of the generator's second version.
"""

import random


def parts(text, separator):
    """A text cut at a separator, without the line breaks between the parts."""
    return [part.strip() for part in text.split(separator)]


PLURALS = """animal/animals, bilaterian/bilaterians, chordate/chordates, vertebrate/vertebrates,
mammal/mammals, carnivore/carnivores, feline/felines, cat/cats, tabby/tabbies, bacteria/bacteria,
insect/insects, reptile/reptiles, snake/snakes, cow/cows, sheep/sheep, dog/dogs,
invertebrate/invertebrates, protostome/protostomes, arthropod/arthropods, ant/ants, plant/plants,
lepidopteran/lepidopterans, butterfly/butterflies, painted lady/painted ladies, mullosc/mulloscs,
nematode/nematodes, whale/whales, crustacean/crustaceans, spider/spiders, moth/moths,
number/numbers, integer/integers, real number/real numbers, natural number/natural numbers,
prime number/prime numbers, Mersenne prime/Mersenne primes, function/functions,
imaginary number/imaginary numbers, complex number/complex numbers, fraction/fractions,
negative number/negative numbers, composite number/composite numbers, even number/even numbers,
worpus/worpus, sorpus/sorpus"""
NOUNS = dict(pair.split("/") for pair in parts(PLURALS, ","))
FICTIONAL = """wumpus yumpus zumpus dumpus rompus numpus tumpus vumpus impus jompus
gorpus shumpus lempus sterpus grimpus lorpus brimpus"""
FICTIONAL = FICTIONAL.split()
IRRELEVANT = """timpus yimpus rempus fompus worpus terpus gerpus kerpus scrompus zhorpus bompus jelpus
felpus chorpus hilpus storpus yerpus boompus gwompus rorpus quimpus"""
IRRELEVANT = IRRELEVANT.split()
NOUNS |= {name: NOUNS.get(name, f"{name}es") for name in FICTIONAL + IRRELEVANT}
WITH_AN = """animal, arthropod, ant, impus, insect, invertebrate, integer, even number,
imaginary number"""
WITH_AN = parts(WITH_AN, ",")
FALSE = """animal, vertebrate, mammal, carnivore, feline, cat, dog, sheep, cow, snake;
animal, invertebrate, arthropod, insect, lepidopteran, butterfly, moth, ant, spider, crustacean;
number, real number, integer, natural number, prime number, Mersenne prime, even number,
composite number, negative number, fraction"""
FALSE = [parts(names, ",") for names in FALSE.split(";")]
FAMILIES = """blue red brown orange; small large; metallic wooden luminous liquid; transparent opaque;
nervous happy feisty shy; bright dull; sweet sour spicy bitter; floral fruity earthy;
hot cold temperate; kind mean angry amenable aggressive; melodic muffled discordant loud;
slow moderate fast; windy sunny overcast rainy snowy"""
FAMILIES = [family.split() for family in FAMILIES.split(";")]
ENTITIES = ["Fae", "Rex", "Sally", "Max", "Alex", "Sam", "Polly", "Stella", "Wren"]

# Concepts of the true ontology, root first, each with the properties that it may have ("-": not).
BRANCHES = [
    "animal:multicellular,-unicellular bilaterian chordate vertebrate mammal:furry,warm-blooded,"
    "-cold-blooded carnivore:carnivorous,-herbivorous feline cat tabby",
    "animal:multicellular,-unicellular invertebrate protostome arthropod:segmented,small,-bony "
    "insect:six-legged,-eight-legged lepidopteran butterfly painted_lady",
    "number real_number:real,-imaginary integer natural_number:positive,-negative "
    "prime_number:prime,-composite Mersenne_prime:prime,-composite",
]
LEFT_OUT = {"bilaterian": 4, "chordate": 4, "tabby": 5, "protostome": 5, "painted_lady": 5}
"""Concepts of long proofs alone."""
CONTRADICTING = {
    **dict.fromkeys(("multicellular", "unicellular"), "bacteria"),
    **dict.fromkeys(("furry", "warm-blooded", "cold-blooded"), "snake"),
    **dict.fromkeys(("carnivorous", "herbivorous"), "sheep"),
    **dict.fromkeys(("small", "bony"), "whale"),
    **dict.fromkeys(("six-legged", "eight-legged"), "spider"),
    **dict.fromkeys(("positive", "negative"), "negative number"),
    **dict.fromkeys(("prime", "composite"), "composite number"),
    "segmented": "nematode",
    "real": "imaginary number",
    "imaginary": "complex number",
}


def predicate(word, negated=False):
    """ "is a cat", "is not furry"."""
    article = ("an " if word in WITH_AN else "a ") if word in NOUNS else ""
    return f"is {'not ' if negated else ''}{article}{word}."


def rule(rng, subject, word, negated=False):
    """A sentence about a concept, in one of the generator's three forms."""
    if rng.random() < 0.5:
        plural = NOUNS[subject]
        return f"{plural[0].upper()}{plural[1:]} are {'not ' if negated else ''}{NOUNS.get(word, word)}."
    return f"{rng.choice(['Each', 'Every'])} {subject} {predicate(word, negated)}"


def literal(rng, words):
    """A word of a family, negated one time in three."""
    return rng.choice(words), rng.random() < 1 / 3


def true_chain(rng, hops):
    """Concepts with their properties, root first."""
    chain = []
    for node in rng.choice(BRANCHES).split():
        name, _, options = node.partition(":")
        if hops >= LEFT_OUT.get(name, 0):
            word = rng.choice(options.split(",")) if options else None
            chain.append((name.replace("_", " "), word and (word.lstrip("-"), word[0] == "-")))
    return chain


def drawn_chain(rng, names, hops):
    """A chain of random concepts that is long enough."""
    depth = rng.randint(hops, len(names) - 1)
    names = rng.sample(names, depth + 1)
    families = rng.sample(FAMILIES[:10], depth)
    return [(names[0], None)] + [
        (name, literal(rng, family)) for name, family in zip(names[1:], families, strict=True)
    ]


def record(seed, ontology, hops, ordering, distractors="none"):
    """One record: question, query, chain_of_thought and answer."""
    rng = random.Random(repr((seed, ontology, hops, ordering, distractors)))
    entity = rng.choice(ENTITIES)
    while True:
        names = list(rng.choice(FALSE)) if ontology == "false" else list(FICTIONAL[:10])
        contradicting = names.pop(rng.randrange(len(names)))
        chain = true_chain(rng, hops) if ontology == "true" else drawn_chain(rng, names, hops)
        ends = [end for end in range(len(chain) - hops + 1) if chain[end][1] is not None]
        if ends:
            break
    end = rng.choice(ends)
    start = end + hops - 1
    word, negated = chain[end][1]
    if ontology == "true":
        contradicting = CONTRADICTING[word]
        if chain[0][0] == "number":
            entity = str(rng.choice([3, 7, 31, 127, 8191, 131071]))
    up, says = {}, {}
    nodes = []
    for index, (name, owned) in enumerate(chain):
        rules = []
        if index:
            up[name] = rule(rng, name, chain[index - 1][0])
            rules.append(up[name])
        if owned is not None:
            says[name] = rule(rng, name, *owned)
            rules.append(says[name])
        nodes.append(rules)
    extra, second = distracting(rng, chain, distractors, entity)
    rules = [sentence for node in nodes for sentence in node] + extra
    if ordering == "postorder":
        rules.reverse()
    elif ordering == "random":
        rng.shuffle(rules)
    rules.insert(rng.randrange(len(rules) + 1), rule(rng, contradicting, word, not negated))
    premises = [f"{entity} {predicate(chain[start][0])}", *second]
    thoughts = premises[:1]
    for index in range(start, end, -1):
        thoughts += [up[chain[index][0]], f"{entity} {predicate(chain[index - 1][0])}"]
    thoughts += [says[chain[end][0]], f"{entity} {predicate(word, negated)}"]
    rng.shuffle(premises)
    label = rng.random() < 0.5
    return {
        "question": " ".join(rules + premises),
        "query": f"True or false: {entity} {predicate(word, negated == label)}",
        "chain_of_thought": thoughts,
        "answer": str(label),
    }


def distracting(rng, chain, distractors, entity):
    """Rules of distractors, and the premise that they have.

    relevant: each concept but the root has a second parent, and a second premise is of the same
    entity. irrelevant: the same of other concepts and another entity.
    """
    if distractors == "none":
        return [], []
    fresh = [name for name in FICTIONAL[10:] + IRRELEVANT if name not in dict(chain)]
    rng.shuffle(fresh)
    rules = []
    children = [name for name, _ in chain[1:]]
    for child in children:
        parent = fresh.pop()
        child = child if distractors == "relevant" else fresh.pop()
        rules += [rule(rng, child, parent), rule(rng, parent, *literal(rng, FAMILIES[10]))]
    leaf, root = fresh.pop(), fresh.pop()
    rules += [rule(rng, leaf, root), rule(rng, leaf, *literal(rng, FAMILIES[11]))]
    if distractors == "irrelevant":
        entity = rng.choice([name for name in ENTITIES if name != entity])
    return rules, [f"{entity} {predicate(leaf)}"]
