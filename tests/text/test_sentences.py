"""Sentences of any vocabulary are read by their form, by plural rules and by the text's own words."""

import pytest
from ontologies import NOUNS

from rb_interp.errors import TextError
from rb_interp.text.prontoqa import CONCEPTS, FAMILIES
from rb_interp.text.sentences import (
    fact,
    indefinite_article,
    irregular_plurals,
    parse_clause,
    read_clauses,
    regular_plural,
    rule,
)


def read(*sentences):
    return read_clauses([parse_clause(sentence) for sentence in sentences])


def test_every_sentence_reads_back_as_what_it_says():
    for noun in CONCEPTS:
        for form in ("plural", "Each", "Every"):
            for word, is_concept, negated in (("impus", True, False), ("hot", False, True)):
                statement = rule(noun, word, is_concept, negated, form)
                assert read(statement.sentence) == [statement]
        statement = fact("Max", noun, is_concept=True, negated=False)
        assert read(statement.sentence) == [statement]
    for family in FAMILIES:
        for word in family:
            statement = fact("Max", word, is_concept=False, negated=True)
            assert read(statement.sentence) == [statement]


def test_plurals_and_articles_of_the_original_are_known():
    for noun, plural in NOUNS.items():
        assert plural in (regular_plural(noun), *irregular_plurals(noun)), noun
    nouns = ("impus", "integer", "eudicot", "cat", "even number", "Mersenne prime")
    assert [indefinite_article(noun) for noun in nouns] == ["an", "an", "a", "a", "an", "a"]


@pytest.mark.parametrize(
    ("singular", "plural"),
    [
        ("mouse", "mice"),
        ("butterfly", "butterflies"),
        ("monkey", "monkeys"),
        ("sheep", "sheep"),
        ("wolf", "wolves"),
        ("knife", "knives"),
        ("roof", "roofs"),
        ("box", "boxes"),
        ("potato", "potatoes"),
        ("piano", "pianos"),
        ("person", "people"),
        ("woman", "women"),
        ("human", "humans"),
        ("goose", "geese"),
        ("bacterium", "bacteria"),
        ("bacteria", "bacteria"),
        ("axis", "axes"),
        ("index", "indices"),
        ("cactus", "cacti"),
        ("larva", "larvae"),
        ("species", "species"),
        ("menu", "menus"),
        ("house", "houses"),
        ("prime number", "prime numbers"),
        ("Mersenne prime", "Mersenne primes"),
        ("tooth", "teeth"),
        ("stomach", "stomachs"),
    ],
)
def test_a_plural_is_joined_to_its_singular_in_the_text(singular, plural):
    article = indefinite_article(singular)
    subject = plural[0].upper() + plural[1:]
    about, of, entity, each = read(
        f"{subject} are not nervous.",
        f"Cats are {plural}.",
        f"Sam is {article} {singular}.",
        f"Each {singular} is small.",
    )
    assert about[:4] == (singular, "nervous", False, True)
    assert of[:4] == ("cat", singular, True, False)
    assert entity[:4] == ("Sam", singular, True, False)
    assert each[:4] == (singular, "small", False, False)


def test_a_word_of_plural_sentences_alone_is_a_concept_if_it_is_a_subject_or_ends_as_a_plural():
    statements = read("Sheep are cows.", "Cows are luminous.", "Dogs are sheep.", "Ants are brown.")
    assert [(s.subject, s.predicate, s.is_concept) for s in statements] == [
        ("sheep", "cow", True),
        ("cow", "luminous", False),
        ("dog", "sheep", True),
        ("ant", "brown", False),
    ]


def test_a_capital_within_the_text_stays_and_one_at_its_beginning_goes():
    statements = read("Mersenne primes are odd.", "Ants are Mersenne primes.", "Numbers are ants.")
    assert [s.subject for s in statements] == ["Mersenne prime", "ant", "number"]


def test_facts_from_outside_tell_what_the_context_leaves_open():
    context = [parse_clause("Dogs are mice.")]
    assert not read_clauses(context)[0].is_concept
    assert read_clauses(context, [parse_clause("Sam is a mouse.")])[0][:3] == ("dog", "mouse", True)


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        (["Each cat is a pet.", "Each dog is pet."], "'pet' is a concept and a property"),
        (["Each cat is a pet.", "Max is pets."], "'pets' is a concept and a property"),
        (["Each cats is hot.", "Max is a cat."], "'cats' is a singular and the plural of another"),
        (
            ["Cats are hot.", "Cat are shy.", "Max is a cat."],
            "'cat' has two plurals, 'cats' and 'cat'",
        ),
        (["Each Cat is hot.", "Max is a cat."], "'Cat' is written with and without a capital"),
    ],
)
def test_a_text_that_contradicts_itself_in_a_word_is_refused(sentences, message):
    with pytest.raises(TextError, match=f"^{message}.*; expected one use of a word"):
        read(*sentences)


@pytest.mark.parametrize(
    "sentence",
    [
        "Every wumpus is a impus.",
        "Each cat is an mammal.",
        "All wumpuses are hot.",
        "No cat is a dog.",
        "Max is hot",
        "Max is  hot.",
        "max is hot.",
        "cats are hot.",
        "Every wumpuses are hot.",
        "Cats are a mammal.",
        "Each cat is a mammal and a pet.",
        "Everything that is hot is a cat.",
        "It is hot.",
        "Max is.",
        "Max is not.",
        "Max was hot.",
    ],
)
def test_sentences_of_no_form_are_refused(sentence):
    with pytest.raises(
        TextError, match="is no sentence of PrOntoQA: expected 'Xs are Y.', 'Each x is Y.'"
    ):
        parse_clause(sentence)
