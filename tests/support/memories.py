"""An invented little world for the real stores: a workshop, a boat, recipes, travel, a software project."""

from typing import Any

FACTS: list[dict[str, Any]] = [
    {"project": project, "key": key, "value": value, "why": why, "source": "user"}
    for project, key, value, why in [
        ("workshop", "workshop.address", "the old net loft at Harbour Row 9", "the rent is low and the slip is near"),
        ("workshop", "workshop.heating", "a wood stove, lit at seven", "epoxy does not cure below ten degrees"),
        ("workshop", "bandsaw.blade", "three teeth per inch, skip tooth", "wet larch clogs finer blades"),
        ("workshop", "glue.choice", "epoxy with wood flour", "polyurethane glue failed on the oak knees"),
        ("workshop", "lathe.owner", "Marta", "she lends it until the tiller is done"),
        ("workshop", "dust.extractor", "runs whenever the planer runs", "Olin has asthma"),
        ("boat", "boat.name", "Kittiwake", "the first owner named her after the gulls on the cliff"),
        ("boat", "hull.planking", "larch on oak frames", "that is how she was built in 1957"),
        ("boat", "hull.colour", "sea green with a white strake", "it hides weed stains at the waterline"),
        ("boat", "mast.timber", "Douglas fir, hollow", "a solid mast made her roll"),
        ("boat", "engine.model", "a two-cylinder diesel of 18 horsepower", "spare parts are still made"),
        ("boat", "keel.bolts", "bronze, replaced in spring", "the iron ones had wasted to half"),
        ("boat", "sail.maker", "the loft in Port Ellery", "they still cut cotton-look cloth"),
        ("boat", "launch.date", "the spring tide of May", "the slip is too shallow on other days"),
        ("recipes", "bread.flour", "half rye, half wheat", "pure rye did not rise in the boat's oven"),
        ("recipes", "sourdough.feeding", "every evening, one to one to one", "a weaker starter makes flat loaves"),
        ("recipes", "chowder.fish", "smoked haddock", "fresh cod falls apart"),
        ("recipes", "coffee.ratio", "60 grams to a litre", "Olin finds anything weaker sad"),
        ("recipes", "plum.jam", "no pectin, a long boil", "the plums of Marta's garden set by themselves"),
        ("travel", "ferry.port", "Port Ellery, pier two", "pier one is for freight"),
        ("travel", "summer.route", "north about, by the outer islands", "the sound is full of traffic in July"),
        ("travel", "passport.renewal", "due in March", "it takes six weeks"),
        ("travel", "anchorage.favourite", "Seal Bay in a westerly", "it is open to the east"),
        ("travel", "tide.tables", "the harbour office's own", "the printed ones are eleven minutes off"),
        ("tidelog", "database", "SQLite", "one file is enough for one boat"),
        ("tidelog", "language", "Python 3.11", "the harbour computer has it"),
        ("tidelog", "release.day", "Thursday", "nobody is around to mend a Friday release"),
        ("tidelog", "units", "metres and knots", "feet and fathoms were mixed up once"),
        ("tidelog", "api.port", "8090", "8080 is taken by the weather station"),
        ("tidelog", "test.command", "pytest -q", "the long output hid the failures"),
    ]
]

EPISODES: list[dict[str, Any]] = [
    {"content": content, "topic": topic, "source": "user", "extra": {"place": place}}
    for content, topic, place in [
        ("We lit the wood stove before dawn so that the epoxy on the frames would cure.", "workshop, glue", "loft"),
        ("The bandsaw blade snapped in the middle of a larch plank; nobody was hurt.", "workshop, tools", "loft"),
        ("Marta brought her lathe and showed Olin how to turn a tiller handle.", "workshop, tools", "loft"),
        ("A pipe froze and the workshop floor was under water; we moved the timber upstairs.", "workshop", "loft"),
        ("Olin coughed all day: the dust extractor had been left off.", "workshop, health", "loft"),
        ("Swept out the net loft and found a box of copper nails from the fifties.", "workshop, boat", "loft"),
        ("Scraped the hull down to bare larch and found the name Kittiwake under the paint.", "boat, hull", "slip"),
        ("Two keel bolts came out like pencils, wasted by rust; ordered bronze ones.", "boat, keel", "slip"),
        ("Painted the hull sea green; three neighbours came by to argue about the colour.", "boat, hull", "slip"),
        ("The diesel engine started at the first try after we bled the fuel line twice.", "boat, engine", "slip"),
        ("Stepped the hollow mast with the harbour crane and put a coin under its foot.", "boat, mast", "harbour"),
        ("Launched on the spring tide; she leaked for two days until the planks took up.", "boat, launch", "harbour"),
        ("First sail in a light breeze; she balances with two fingers on the tiller.", "boat, sailing", "sound"),
        ("Reefed too late in the squall off Seal Bay and tore the mainsail along a seam.", "boat, sailing", "Seal Bay"),
        ("Baked rye bread aboard; the oven is small and the loaf came out lopsided.", "recipes, bread", "boat"),
        ("The sourdough starter died after I forgot to feed it for a week of varnishing.", "recipes, bread", "home"),
        ("Cooked haddock chowder for six in the loft; the pot was scraped clean.", "recipes, friends", "loft"),
        ("Olin made coffee so strong that Marta stirred it with a chisel.", "recipes, friends", "loft"),
        ("Picked plums in Marta's garden and boiled jam until midnight.", "recipes, friends", "garden"),
        ("Missed the ferry because we waited at pier one with the freight.", "travel, ferry", "Port Ellery"),
        ("Anchored in Seal Bay; the wind went east at night and we left in the dark.", "travel, sailing", "Seal Bay"),
        ("Sailed north about by the outer islands and saw a whale from the cockpit.", "travel, sailing", "islands"),
        ("The customs officer frowned at a passport that ends in March.", "travel, papers", "Port Ellery"),
        ("Sheltered three days from a gale on the outer islands and read old letters.", "travel, weather", "islands"),
        ("The tide log was eleven minutes off; the printed tables were at fault.", "tidelog, tides", "home"),
        ("Released tidelog on a Friday and spent Saturday mending the import.", "tidelog, release", "home"),
        ("Moved tidelog from text files to SQLite in one long evening.", "tidelog, database", "home"),
        ("A depth in feet was read as metres and the alarm woke the harbour master.", "tidelog, units", "harbour"),
        ("The weather station took port 8080, so the tidelog service would not start.", "tidelog, network", "harbour"),
        ("Marta wrote her first test for tidelog and found a leap-year bug with it.", "tidelog, tests", "loft"),
    ]
]
