"""What the sample stores of `demo` hold and answer: invented memories, ranked by shared words (tf-idf, cosine). Pure.

Nora restores the gaff cutter Marlene with her friends and writes tidelog, a log book program, with one of them.
"""

import math
import re
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

TIER_WEIGHTS = {"short": 1.0, "near": 0.8, "long": 0.6}
STOP_WORDS = frozenset(
    re.findall(r"\w+", "a an and are at by did do for from in is it of on or that the to was what when which with")
)

Search = Callable[[Mapping[str, Any]], dict[str, Any]]


class Fact(NamedTuple):
    """One keyed fact; `superseded_at` (seconds since 1970) marks one that no longer holds."""

    project: str
    key: str
    value: str
    why: str | None = None
    superseded_at: float | None = None
    why_changed: str | None = None


class Episode(NamedTuple):
    """One remembered moment; `topic` is comma-separated tags, `superseded` marks one that was corrected later."""

    day: str
    tier: str
    topic: str
    content: str
    superseded: bool = False


def read_fact(line: str) -> Fact:
    project, key, value, *why = (cell.strip() for cell in line.split("|"))
    return Fact(project, key, value, why[0] if why else None)


def read_episode(head: str, content: str) -> Episode:
    day, tier, topic, *superseded = head.split()
    return Episode(day, tier, topic, content.strip(), bool(superseded))


# project | key | value | why
FACT_TABLE = """
marlene | boat name | Marlene | the first owner named her after his sister
marlene | length | 9.80 m
marlene | build year | 1936 | carved into the main beam below the deck hatch
marlene | planking wood | larch | its resin resists rot and Jonas can saw it locally
marlene | frame wood | oak | steamed oak bends around the bilge without cracking
marlene | mast wood | spruce | light aloft, and Hinrich had a dry trunk in his shed
marlene | hull paint | dark green | old photographs show her dark green with a white strake
marlene | deck seam compound | pine tar and cotton | synthetic sealant tore off the larch last winter
marlene | engine | none, a long oar | the diesel leaked into the bilge and was sold
marlene | launch date | 20 June | spring tide at noon, and all friends can come
marlene | sail maker | Ylva in the net loft | she cuts cotton sails by hand and takes bread in part payment
logbook | program name | tidelog | it logs tides, weather and what was done on the boat
logbook | database | SQLite | one file that survives a power cut on the boat's little computer
logbook | tide source | the harbour gauge, every 10 minutes | the forecast is late behind the breakwater
logbook | time zone rule | store UTC, show local time | the tide table shifted an hour in March
logbook | backup | a copy to Mira's machine each night | the first memory card died in the damp cabin
logbook | release day | the day of the launch | Mira wants the first real entry to be the first sail
kitchen | rye bread hydration | 82 percent | less and the crumb is dry by the third day on board
kitchen | fish soup base | mussel stock with fennel | Tove says that cod alone tastes of nothing
kitchen | soup for the launch | fish soup for fourteen | one big pot fits the shipyard stove
kitchen | oven temperature for bread | 250 degrees, falling to 200 | the crust sets before it dries
friends | Jonas | shipwright, owns the saw mill | ask him about larch, oak and anything that floats
friends | Mira | programmer, gets seasick | she tests tidelog ashore and reads every change
friends | Hinrich | retired rigger, 81 | he spliced Marlene's first rigging as a boy
friends | Tove | cook on the ferry, allergic to nuts | no almonds in anything for the launch
"""

# day tier topic[ superseded], then what was remembered
EPISODE_TABLE = """
2024-10-05 long boat,friends
    Bought Marlene from Hinrich's cousin for the price of the mooring; Hinrich wept at the harbour.
2024-10-19 long boat,planking,wood
    Jonas tapped along the planking with a hammer and found rot in eleven planks below the waterline.
2024-11-02 long boat,planking,wood,larch
    Argued with Jonas over pine or larch for the planking; larch won because its resin keeps rot out.
2024-11-23 long boat,wood,oak,frames
    Steamed the first oak frames in a drain pipe; two cracked, the third bent like warm bread dough.
2024-12-14 near boat,deck
    Winter storm tore the synthetic sealant out of the deck seams and water stood in the cabin.
2024-12-15 near boat,deck,seams
    Hinrich showed me how to pay the deck seams with cotton and hot pine tar; my gloves are ruined.
2025-01-11 long logbook,software,database
    Started tidelog with Mira at the kitchen table; chose SQLite after the power went out twice.
2025-01-25 near logbook,software,backup
    The memory card died in the damp cabin and a month of log entries was gone. Hence the backup.
2025-02-08 near logbook,tide
    Watched the harbour gauge for a whole tide: the forecast is forty minutes late behind the breakwater.
2025-02-09 near recipes,bread
    Third rye bread this week; with 82 percent water the crumb stayed moist and Hinrich took half the loaf.
2025-03-10 near boat,engine
    Sold the diesel engine to a farmer; the bilge smells of larch and tar instead of oil for the first time.
2025-03-30 near logbook,software,time
    Clocks changed overnight and tidelog showed every tide an hour wrong; Mira fixed it to store UTC.
2025-04-01 near boat,planking,launch
    Two more rotten planks under the mast step, so the launch cannot be in May.
2025-04-12 long boat,mast,wood,friends
    Carried the spruce trunk for the mast out of Hinrich's shed with six friends and one stubborn goat.
2025-04-26 near recipes,soup,friends
    Tove cooked fish soup on the shipyard stove; the mussel stock with fennel is the secret, she says.
2025-04-27 near recipes,friends
    Almost served almond cake to Tove; Mira read the label in time. No nuts near the launch table.
2025-05-03 short boat,planking,larch
    Fastened the last larch plank with copper rivets; Jonas let me swing the hammer for the final one.
2025-05-10 short boat,paint,hull superseded
    Painted the hull white as an undercoat and everyone thought that it was the final colour.
2025-05-11 short boat,paint,hull
    First coat of dark green on the hull, matched to a photograph from 1938 in the harbour office.
2025-05-17 short boat,sails
    Ylva spread the cotton mainsail over the floor of the net loft and was paid partly in rye bread.
2025-05-24 short logbook,software,friends
    Mira ran tidelog through a week of recorded tides on her balcony; two bugs, both in the moon phase.
2025-05-31 short boat,rigging,friends
    Hinrich spliced the last shroud at 81, faster than Jonas and I together, and corrected our knots.
2025-06-07 short boat,launch,tide
    The harbour gauge agrees: on 20 June the spring tide stands at noon, half a metre to spare for the launch.
2025-06-14 short launch,recipes,friends
    List for the launch: soup pot for fourteen, six loaves of rye bread, dry socks, a bottle for the bow.
2025-06-15 short boat,planking,water
    Hosed water into the hull so that the larch planking swells; by evening the seams had stopped weeping.
"""

FACTS = (
    *map(read_fact, FACT_TABLE.strip().splitlines()),
    Fact(
        *("marlene", "engine", "two-cylinder diesel of 1961", "it came with the boat"),
        superseded_at=1741600800.0,
        why_changed="sold in March: it leaked oil into the bilge",
    ),
    Fact(
        *("marlene", "launch date", "1 May", "the first plan, before the rot under the mast step was found"),
        superseded_at=1743497100.0,
        why_changed="moved to June: two more planks had to be replaced",
    ),
)
EPISODES = tuple(map(read_episode, EPISODE_TABLE.split("\n")[1::2], EPISODE_TABLE.split("\n")[2::2]))


class RefusedError(Exception):
    """A request that is answered with a 4xx status and a JSON body."""

    def __init__(self, status: int, detail: object) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


class WordIndex:
    """Ranks texts by the cosine of their tf-idf vectors with that of a query."""

    def __init__(self, texts: Sequence[str]) -> None:
        counts = [Counter(words(text)) for text in texts]
        spread = Counter(word for count in counts for word in count)
        self.rarity = {word: math.log(1 + len(texts) / seen) for word, seen in spread.items()}
        self.vectors = [self.unit(count) for count in counts]

    def unit(self, count: Counter[str]) -> dict[str, float]:
        unseen = math.log(1 + len(self.rarity))
        vector = {word: n * self.rarity.get(word, unseen) for word, n in count.items()}
        length = math.hypot(*vector.values()) or 1.0
        return {word: value / length for word, value in vector.items()}

    def similarities(self, query: str) -> list[float]:
        """Return one number in 0..1 for each text, in the order of the texts."""
        asked = self.unit(Counter(words(query)))
        return [min(1.0, sum(asked.get(w, 0.0) * value for w, value in vector.items())) for vector in self.vectors]


def words(text: str) -> list[str]:
    """Split a text into lower-case words without stop words and plural endings."""
    found = re.findall(r"\w+", text.casefold())
    return [word[:-1] if len(word) > 3 and word.endswith("s") else word for word in found if word not in STOP_WORDS]


def sample_id(*parts: str) -> str:
    """Return an id that is the same in every run."""
    return uuid.uuid5(uuid.NAMESPACE_OID, "/".join(parts)).hex


def fact_search(facts: Sequence[Fact] = FACTS) -> Search:
    """Return the POST /search of a seren_loci that holds these facts."""
    index = WordIndex([f"{f.project} {f.key} {f.key} {f.value} {f.why or ''}" for f in facts])

    def search(body: Mapping[str, Any]) -> dict[str, Any]:
        query = field(body, "query", str)
        project = field(body, "project", str, None)
        n_results = field(body, "n_results", int, 10)
        field(body, "include_fundamentals", bool, True)  # the samples hold none
        superseded = field(body, "include_superseded", bool, False)
        found = []
        for fact, similarity in zip(facts, index.similarities(query), strict=True):
            exact = words(fact.key) == words(query)
            score = (1.0 if fact.superseded_at is None else 0.9) if exact else 0.9 * similarity
            hidden = (fact.superseded_at and not superseded) or (project is not None and fact.project != project)
            if score > 0 and not hidden:
                found.append(fact_hit(fact, score, exact))
        found.sort(key=lambda hit: -hit["score"])
        return {"query": query, "project": project, "hits": found[: max(0, n_results)], "finder": "lexical"}

    return search


def fact_hit(fact: Fact, score: float, exact: bool) -> dict[str, Any]:
    return {
        "id": sample_id(fact.project, fact.key, fact.value),
        "project": fact.project,
        "key": fact.key,
        "value": fact.value,
        "why": fact.why,
        "score": round(score, 6),
        "match_kind": "exact" if exact else "lexical",
        "source": "user",
        "raw_distance": None,
        "live": fact.superseded_at is None,
        "superseded_at": fact.superseded_at,
        "why_changed": fact.why_changed,
        "figures": 0,
        "recheck": None,
    }


def episode_search(episodes: Sequence[Episode] = EPISODES) -> Search:
    """Return the POST /search of a seren_memory that holds these episodes."""
    index = WordIndex([f"{e.topic} {e.content}" for e in episodes])

    def search(body: Mapping[str, Any]) -> dict[str, Any]:
        query = field(body, "query", str)
        n_results = field(body, "n_results", int, 10)
        if not 1 <= n_results <= 50:
            raise unprocessable("n_results", "Input should be between 1 and 50")
        tiers = [tier for tier in TIER_WEIGHTS if field(body, f"include_{tier}", bool, True)]
        superseded = field(body, "include_superseded", bool, False)
        field(body, "include_satellites", bool, False)  # the samples hold none
        surroundings = field(body, "with_surroundings", bool, False)
        found = [
            episode_hit(episode, similarity, surroundings)
            for episode, similarity in zip(episodes, index.similarities(query), strict=True)
            if similarity > 0 and episode.tier in tiers and (superseded or not episode.superseded)
        ]
        found.sort(key=lambda hit: -hit["score"])
        return {"query": query, "searched_tiers": tiers, "hits": found[:n_results]}

    return search


def episode_hit(episode: Episode, similarity: float, surroundings: bool) -> dict[str, Any]:
    alone: dict[str, Any] = {
        "satellites": 0,
        "latest_satellite_at": None,
        "supersedes": None,
        "superseded_by": None,
        "recent": [],
    }
    return {
        "tier": episode.tier,
        "content": episode.content,
        "topic": episode.topic,
        "score": round(TIER_WEIGHTS[episode.tier] * similarity, 6),
        "raw_distance": round(2 * (1 - similarity), 6),
        "id": sample_id(episode.day, episode.content),
        "metadata": {"created_at": f"{episode.day}T18:00:00+00:00", "source": "user", "superseded": episode.superseded},
        "surroundings": alone if surroundings and episode.tier == "long" else None,
        "matched_via": None,
    }


def field(body: Mapping[str, Any], name: str, kind: type, *default: Any) -> Any:
    """Return one field of a request; without a default it is required, with None as default it may be null."""
    if name not in body and default:
        return default[0]
    value = body.get(name)
    if type(value) is kind or (value is None and default == (None,)):
        return value
    raise unprocessable(name, f"Input should be a valid {kind.__name__}")


def unprocessable(name: str, message: str) -> RefusedError:
    return RefusedError(422, [{"loc": ["body", name], "msg": message, "type": "value_error"}])
