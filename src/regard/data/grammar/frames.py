"""The table behind the pronoun family: what animals and vehicles do to what, and the reasons for and against it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Frame:
    """A verb with its subjects and objects, and the reasons for not doing it and for doing it.

    Reasons are a pair: adjectives of the subject, adjectives of the object. `flight` is for verbs that are done
    because something is too much: the cow left the barn because it was too dark.
    """

    verb: str
    who: str
    what: str
    against: tuple[str, str] = ("", "")
    favor: tuple[str, str] = ("", "")
    flight: bool = False


_FRAIL = "tired exhausted sick wounded lazy"
_WEAK = f"{_FRAIL} slow"
_AFRAID = "scared nervous shy distracted confused stubborn"
_KEEN = "hungry thirsty curious restless bored"
_LADEN = "slow heavy loaded"
_GROUND = "way land river lake lagoon stream"
_INSIDE = "barn stable house cabin castle garden yard forest jungle cave kitchen room tunnel church store market park"
_HOME = "barn stable house cabin farm cave garden yard room kitchen garage bed"
_LOADS = "box basket barrel sack stone table bed piano bag"

FRAMES = (
    Frame(
        "cross",
        "walker",
        _GROUND,
        (f"{_WEAK} {_AFRAID} hungry thirsty fat", "wide long deep steep dangerous flooded dark crowded muddy slippery"),
        (f"{_KEEN} scared angry", "narrow short dry empty open frozen"),
    ),
    Frame(
        "cross",
        "walker",
        "street road avenue highway square river bridge field valley tunnel",
        (f"{_WEAK} {_AFRAID}", "wide long dangerous noisy blocked closed frozen cold"),
    ),
    Frame(
        "cross",
        "wheels",
        "way field square meadow valley",
        (_LADEN, "narrow steep flooded dangerous slippery muddy blocked closed long"),
        ("fast", "open empty dry wide short"),
    ),
    Frame(
        "enter",
        "walker",
        f"{_INSIDE} pond",
        (f"{_AFRAID} fat sick slow lazy wounded", "dark closed crowded flooded dirty noisy narrow cold deep frozen"),
        (f"{_KEEN} tired exhausted scared sick wounded", "open empty dry"),
    ),
    Frame(
        "enter",
        "wheels",
        "garage tunnel city village barn farm yard park square street highway",
        (_LADEN, "narrow closed flooded crowded dark blocked noisy"),
        ("fast loaded", "open empty wide"),
    ),
    Frame(
        "leave",
        "walker",
        _INSIDE,
        ("tired sick wounded lazy exhausted scared shy", "closed dry"),
        (f"{_KEEN} scared angry nervous", "dark dirty flooded crowded noisy cold narrow"),
        flight=True,
    ),
    Frame(
        "return to",
        "walker",
        "house barn stable farm cave forest garden village park field",
        ("confused distracted angry stubborn restless", "dirty cold flooded closed noisy dark dangerous"),
        ("tired hungry thirsty scared sick wounded exhausted", "open empty dry"),
    ),
    Frame(
        "reach",
        "walker wheels",
        "bridge tunnel farm square park beach highway mountain castle valley field river",
        (
            "tired exhausted sick wounded slow lazy confused distracted loaded",
            "flooded blocked dangerous steep crowded",
        ),
    ),
    Frame(
        "avoid",
        "walker",
        "way forest jungle square park beach market city yard",
        favor=(
            "scared nervous shy wounded sick tired",
            "dangerous noisy crowded dirty dark flooded muddy slippery steep narrow",
        ),
        flight=True,
    ),
    Frame(
        "avoid",
        "wheels",
        "way square city field park",
        favor=(_LADEN, "dangerous crowded dark flooded muddy slippery steep narrow"),
        flight=True,
    ),
    Frame(
        "follow",
        "walker",
        "way river stream",
        ("tired scared distracted lazy stubborn exhausted", "long dangerous dark muddy steep flooded narrow"),
        ("curious confused hungry thirsty bored", "wide short dry empty"),
    ),
    Frame(
        "block",
        "elephant cow wheels",
        "way",
        favor=("fat slow loaded stubborn lazy", "narrow steep muddy slippery"),
        flight=True,
    ),
    Frame(
        "use",
        "walker",
        "bridge tunnel path road street avenue",
        ("scared nervous distracted stubborn fat", "dangerous closed slippery narrow wet dark blocked"),
        ("tired lazy scared hungry", "wide open dry short empty"),
    ),
    Frame(
        "climb",
        "climber",
        "height",
        (f"{_WEAK} scared fat distracted", "high steep slippery dangerous wet"),
        ("curious restless scared hungry bored", "low dry"),
    ),
    Frame(
        "jump over",
        "jumper",
        "barrier stream",
        (f"{_WEAK} scared fat shy", "high wide deep slippery dangerous"),
        ("hungry scared restless curious angry", "low narrow dry"),
    ),
    Frame(
        "eat",
        "walker",
        "food",
        ("sick tired scared nervous restless distracted exhausted", "cold bitter rotten hard burnt raw salty dry"),
        ("hungry exhausted curious bored", "fresh ripe delicious soft"),
    ),
    Frame(
        "smell",
        "walker",
        "food",
        ("sick distracted tired lazy", "cold dry frozen salty"),
        ("hungry curious bored", "rotten fresh ripe delicious burnt"),
    ),
    Frame(
        "steal",
        "fox monkey mouse squirrel goat bear spider ant",
        "food",
        ("scared sick distracted lazy shy", "rotten burnt bitter raw hard salty cold"),
        ("hungry curious bored restless", "delicious fresh ripe"),
    ),
    Frame(
        "touch",
        "walker",
        "food bed chair ball stone rope barrel bone stick toy shoe",
        ("scared shy nervous distracted sick", "cold dirty rotten wet burnt broken slippery raw"),
        ("curious restless bored", "soft"),
    ),
    Frame(
        "drink",
        "walker",
        "water milk juice",
        ("sick scared nervous distracted stubborn", "cold dirty bitter frozen"),
        ("thirsty tired exhausted", "fresh delicious"),
    ),
    Frame("carry", "pack carrier", _LOADS, (f"{_FRAIL} stubborn loaded", "heavy full wet dirty broken")),
    Frame("move", "strong", _LOADS, (f"{_FRAIL} distracted", "heavy full wet slippery")),
    Frame("push", "strong", "cart car piano barrel stone table box", (f"{_FRAIL} stubborn", "heavy full loaded wet")),
    Frame("lift", "strong", "barrel sack stone box table piano", (f"{_FRAIL} nervous", "heavy full slippery wet")),
    Frame(
        "bite",
        "biter horse",
        "ball bone stick rope shoe toy",
        ("tired sick scared lazy", "hard dirty wet"),
        ("hungry angry nervous bored restless curious", "soft dry"),
    ),
    Frame(
        "sleep in",
        "walker",
        _HOME,
        ("nervous scared restless hungry thirsty angry", "cold hard noisy dirty dark wet flooded"),
        ("tired exhausted sick wounded lazy", "dry soft empty"),
    ),
    Frame(
        "rest in",
        "walker",
        f"{_HOME} meadow park forest",
        ("nervous scared restless hungry angry", "cold hard noisy dirty wet flooded muddy crowded"),
        ("tired exhausted sick wounded", "dry soft empty"),
    ),
    Frame(
        "play in",
        "walker",
        "garden yard park field beach room kitchen street square meadow",
        ("tired sick lazy wounded shy", "dirty muddy flooded wet cold crowded dangerous dark"),
        ("bored restless curious", "empty dry open"),
    ),
)
