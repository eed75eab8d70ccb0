"""Sentences, people and places of the synthetic archives, drawn from one random source.

A `World` fixes the cast of one archive: its town, its people, its places and its goods. All text of
that archive then speaks of the same few names, as a real one would. Nothing here counts tokens.
"""

from __future__ import annotations

import random
import re


def words(text: str) -> tuple[str, ...]:
    """The words of a text."""
    return tuple(text.split())


_SLOT = re.compile(r"\{(\w+)\}")

_STARTS = words(
    "Al Ar Bel Ber Bran Cal Car Cor Dal Dor El Em Fal Far Gal Gar Hal Har Hol Ing Jor Kal Ker Kir "
    "Lan Lor Mal Mar Mer Mor Nar Nor Ol Or Par Pel Per Quil Ral Ren Ros Sal Sel Sor Tal Tam Ter Tor "
    "Ul Val Var Ver Vin Wal Wen Wil Yar Zel"
)
_MIDDLES = words("a e i o u an en in on ar er or el il ol ad ed id ess ith und end")
_ENDS = words(
    "bury by combe dale den don fell field ford gate ham hurst lan ley low mark mere mouth nor port "
    "ridge rick ros sey shaw stead ston thorpe ton vale wick win wold worth"
)
_FIRST = words(
    "Ada Agnes Albert Alma Anders Anna Arthur Basil Beatrice Bruno Cecil Clara Conrad Dora Edith "
    "Edmund Elsa Emil Esther Felix Flora Frank George Greta Hanna Harold Hector Helen Hugo Ida Iris "
    "Ivan Jacob Jane Jonas Julia Karl Kate Laura Leo Lena Louis Lucy Mabel Magnus Maria Martin Max "
    "Mina Nora Oscar Otto Paula Peter Philip Rosa Ruth Samuel Sofia Stella Theo Thomas Ursula "
    "Victor Vera Walter Wanda William"
)
_WORDS: dict[str, tuple[str, ...]] = {
    "adj": words(
        "old new small large heavy quiet narrow broken careful cold common deep distant dry dusty "
        "early empty even faint fine firm foreign full gentle good grey hard high honest idle late "
        "light long loose low modest muddy near open ordinary pale patient plain poor proud quick "
        "rare rough safe sharp short silent slow soft spare steep steady stiff strange strong "
        "sudden thin tired usual useful warm weak wet wide wooden young"
    ),
    "noun": words(
        "anchor barrel basket bell bench boat book box bridge bucket cabin candle canvas cart chain "
        "chest clock coat compass copper crate curtain desk door drawer engine fence ferry field "
        "file flag floor forge frame garden gate glass hammer harbour hinge house key kettle ladder "
        "lamp lantern ledger letter lock loom map market mast mill mirror net oar orchard oven "
        "packet pail path pier pipe plank plough pump rail ribbon road roof rope saddle sail saw "
        "scale shed shelf shovel signal spade stable stair stone stove string table tile tower "
        "track tray trunk valve wagon wall warehouse watch well wheel window wire"
    ),
    "mass": words(
        "barley brass charcoal clay cloth coal copper cork flax flour glass grain gravel grease hay "
        "hemp honey iron lead leather lime linen oats oil paper pitch rope rye salt sand silk slate "
        "soap steel sugar tallow tar tea timber tin wax wheat wine wool zinc"
    ),
    "verbed": words(
        "carried checked cleaned closed collected counted covered delivered described examined "
        "finished fixed found gathered inspected kept lifted listed locked marked measured mended "
        "moved noticed opened ordered packed painted placed polished raised recorded removed "
        "repaired replaced reported returned searched sealed sent sorted stored tested tied turned "
        "unpacked washed watched weighed"
    ),
    "adv": (
        "again", "at once", "before noon", "by lamplight", "carefully", "early", "for a week",
        "in silence", "late", "quickly", "quietly", "slowly", "that evening", "the next day",
        "together", "twice", "without delay", "with some difficulty", "by hand", "as usual",
    ),
    "when": (
        "After breakfast", "At dawn", "At noon", "Before the rain", "By the end of the week",
        "During the night", "Early in the month", "In the afternoon", "In the evening",
        "Late in the season", "On market day", "On the second day", "Shortly after four",
        "That same morning", "The following week", "Toward evening", "Two days later",
        "When the fog lifted", "When the tide turned", "While the others slept",
    ),
    "why": (
        "because the road was closed", "as the council had asked", "since nobody else was free",
        "so that the work could go on", "although the wind had risen", "before the ferry left",
        "while the ink was still wet", "as agreed in the spring", "until the light failed",
        "in spite of the cold", "for want of a better plan", "as soon as the key was found",
        "because the last count was wrong", "so the matter was settled", "and nothing was missing",
        "and the price was fair", "but no one could say why", "and the clerk made a note of it",
    ),
    "weather": (
        "fog", "light rain", "steady rain", "a clear sky", "low cloud", "snow", "hail", "a dry wind",
        "thunder in the west", "frost", "haze", "bright sun", "drizzle", "a hard gale",
    ),
    "wind": ("north", "north-east", "east", "south-east", "south", "south-west", "west", "calm"),
    "role": (
        "clerk", "carpenter", "captain", "baker", "surveyor", "teacher", "miller", "porter",
        "engineer", "gardener", "printer", "doctor", "mason", "pilot", "warden", "weaver",
    ),
    "unit": ("crates", "barrels", "sacks", "bales", "boxes", "bundles", "cases", "jars"),
    "day": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "month": (
        "January", "February", "March", "April", "May", "June", "July", "August", "September",
        "October", "November", "December",
    ),
    "topic": (
        "the repair of the north wall", "the price of coal", "the new ferry timetable",
        "the lost parcel", "the count of the stores", "the school roof", "the autumn market",
        "the survey of the marsh", "the water pump", "the harbour dues", "the night watch",
        "the printing of notices", "the bridge toll", "the winter fuel", "the library catalogue",
        "the drainage of the lower field", "the signal lamps", "the apprentices", "the town clock",
    ),
}  # fmt: skip

_SENTENCES = (
    "{when} {person} {verbed} the {adj} {noun} and {verbed} the {noun} {adv}.",
    "The {noun} by the {place} was {verbed} {adv}, {why}.",
    "{person} wrote that the {noun} was {adj} and the {noun} was {adj}, {why}.",
    "{when} there was {weather} over {town}, and the {noun} had to be {verbed}.",
    "Nobody at the {place} had {verbed} the {adj} {noun} since {month}.",
    "The {role} of {town} asked {person} for {num} {unit} of {mass}, {why}.",
    "{person} and {person} {verbed} {num} {unit} of {mass} at the {place}.",
    "It was {verbed} {adv} by the {role}, {why}.",
    '"The {noun} is {adj}," said {person}, "and the {noun} will be {verbed} {adv}."',
    "{when} the {role} {verbed} the {noun}, {why}.",
    "A {adj} {noun} and a {adj} {noun} stood in the {place}.",
    "Of the {num} {unit}, {num} were {verbed} and the rest were left at the {place}.",
    "{person} had never seen so {adj} a {noun}, {why}.",
    "The matter of {topic} was left to {person}.",
    "There is a {adj} {noun} in the {place}; it was {verbed} by {person} in {month}.",
    "Then the {noun} was {verbed}, and {person} {verbed} the {mass} {adv}.",
    "All of the {mass} was {verbed} {adv}, but the {noun} stayed {adj}.",
    "{person}, the {role}, {verbed} it {adv} and said no more about {topic}.",
)

_PLACES = (
    "harbour office", "old mill", "north gate", "reading room", "boat shed", "stone bridge",
    "corn exchange", "lower field", "signal house", "chapel yard", "customs house", "east pier",
    "glass works", "town hall", "rope walk", "upper lock", "post office", "salt store", "brick kiln",
    "pump house",
)  # fmt: skip


class World:
    """The cast of one archive and the sentences that speak of it.

    Two worlds with the same random state say the same; `rng` is used up as text is made.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.town = coined_name(rng)
        people = [f"{rng.choice(_FIRST)} {coined_name(rng)}" for _ in range(9)]
        self.people = people
        self.places = rng.sample(_PLACES, 8)
        self._choices: dict[str, tuple[str, ...]] = {
            **_WORDS,
            "noun": tuple(rng.sample(_WORDS["noun"], 36)),
            "adj": tuple(rng.sample(_WORDS["adj"], 26)),
            "mass": tuple(rng.sample(_WORDS["mass"], 14)),
            "verbed": tuple(rng.sample(_WORDS["verbed"], 24)),
            "person": tuple(people),
            "place": tuple(self.places),
            "town": (self.town,),
            "num": tuple(str(rng.randrange(2, 90)) for _ in range(24)),
        }

    def word(self, kind: str) -> str:
        """One word or phrase of a kind, such as `noun`, `person` or `weather`."""
        choices = self._choices[kind]
        return choices[int(self.rng.random() * len(choices))]

    def fill(self, template: str) -> str:
        """The template with each `{kind}` replaced by a word of that kind."""
        return _SLOT.sub(lambda slot: self.word(slot.group(1)), template)

    def sentence(self) -> str:
        """One sentence of plain prose."""
        return self.fill(_SENTENCES[int(self.rng.random() * len(_SENTENCES))])

    def sentences(self, low: int, high: int) -> str:
        """A paragraph of `low` to `high` sentences on one line."""
        return " ".join(self.sentence() for _ in range(self.rng.randint(low, high)))


def coined_name(rng: random.Random) -> str:
    """A pronounceable proper name that is unlikely to be known to any model."""
    middle = rng.choice(_MIDDLES) if rng.random() < 0.5 else ""
    return rng.choice(_STARTS) + middle + rng.choice(_ENDS)
