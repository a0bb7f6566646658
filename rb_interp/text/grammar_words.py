"""Words and turns of phrase of the story grammar; its notation is told in ``grammar``."""

from __future__ import annotations

PRONOUNS = {"boy": ("he", "him", "his", "himself"), "girl": ("she", "her", "her", "herself")}
GROWN = (("mom", "girl"), ("dad", "boy"), ("mom", "girl"), ("dad", "boy"), ("grandma", "girl"), ("grandpa", "boy"))

LISTS = {
    # Names
    "boy_name": """Tom|Ben|Tim|Max|Sam|Jack|Leo|Billy|Bobby|Joe|Mark|Fred|Adam|Noah|Peter|Danny|Henry|Oliver|Toby|
        Lucas|Jake|George|Charlie|Finn|Oscar|David|Ryan|Andy|Matt|Freddy|Johnny|Alex|Eddie|Simon|Will|Owen|Theo|Hugo""",
    "girl_name": """Lily|Mia|Anna|Sara|Amy|Lucy|Sue|Jane|Emma|Ella|Molly|Daisy|Jill|Rosie|Kate|Polly|Nora|Zoe|Grace|
        Ruby|Ellie|Sophie|Maya|Alice|Clara|Annie|Penny|Betty|Julia|Tina|Kim|Maria|Olivia|Hannah|Chloe|Ivy|Nina|Rose""",
    "pet_name": """Spot|Benny|Fluffy|Max|Luna|Pip|Coco|Sunny|Teddy|Buddy|Milo|Bella|Ziggy|Peanut|Nutty|Hoppy|Willow|
        Olly|Momo|Pepper|Ginger|Patch|Biscuit|Muffin|Bubba|Dash|Misty|Tiny|Rusty|Snowy|Button|Maple|Bongo|Lulu""",
    "animal": """rabbit|fox|bear|mouse|squirrel|duck|turtle|frog|hedgehog|kitten|puppy|bunny|raccoon|otter|owl|penguin|
        badger|beaver|deer|lamb|piglet|pony|monkey|elephant|lion|tiger|koala|panda|goat|donkey""",
    "big_animal": "bear|lion|elephant|tiger|horse|bull|moose|gorilla|hippo|giraffe|camel|wolf",
    "tiny_animal": "mouse|squirrel|hedgehog|frog|bird|mole|chipmunk|hamster|lizard|sparrow",
    "fast_animal": "rabbit|fox|deer|pony|horse|hare|cat|cheetah|wolf|zebra",
    "slow_animal": "turtle|snail|hedgehog|duck|mole|toad|sloth|caterpillar|worm|beetle",
    "small_animal": "kitten|puppy|bird|squirrel|rabbit|mouse|hedgehog|duckling|turtle|frog|bunny|owl|lamb",
    # People, places, weather
    "small": "little|little|small|young|kind|curious|cheerful|happy|sweet|clever|brave|quiet|friendly|playful|gentle",
    "home": "house|cottage|cabin|little house|small house|hut|red house|white house",
    "child_home": """in a {home} {near}|in a [village|small town|big town] [near the sea|by a river|in the hills]|
        on a farm [near the woods|by a lake|in a green valley|far from town]""",
    "animal_home": """in a [cave|hut|little house|den|small house] [under an old tree|by a stream|on a hill|near a pond|
        between two rocks|behind a waterfall|in a green valley|far from any town]""",
    "near": """near the [sea|river|forest|woods|mountains|lake]|
        at the edge of [the woods|the forest|a town|a big field]|on [top of a hill|a quiet street|a busy street|a hill]|
        next to [a big park|an old mill|a green field|a bakery]""",
    "park": "park|garden|forest|meadow|woods|playground|orchard|yard|field",
    "wild": "forest|woods|meadow|jungle|valley|field",
    "sunny": "sunny|warm|bright|nice|lovely|beautiful|fine|clear|mild|cool|windy|hot",
    "when": """One {sunny} [morning|day|afternoon],|One day,|One [Monday|Saturday|Sunday],|On a {sunny} [morning|day],|
        One [morning|afternoon] [in spring|in summer|in the fall],|One day after [lunch|breakfast|school|a nap],""",
    "then": "Then|After that,|Soon,|Next,|A little later,|After a while,",
    # Things
    "colour": "red|blue|green|yellow|purple|pink|orange|white|brown|golden|silver",
    "toy": """ball|kite|teddy bear|doll|toy car|toy train|toy boat|toy plane|drum|puzzle|robot|whistle|puppet|top|
        toy truck|toy horse|yo-yo|bracelet|hat|scarf|backpack|flashlight|marble|ring|mitten|blanket|bell|key""",
    "light_toy": "ball|kite|balloon|toy plane|paper plane|hat|feather|scarf|frisbee|ribbon",
    "treat": """cookie|cupcake|muffin|sandwich|apple|pear|peach|banana|orange|plum|bun|pancake|slice of pie|
        slice of cake""",
    "treats": "cookies|cupcakes|muffins|apples|pears|peaches|berries|grapes|cherries|plums|pancakes|candies|nuts",
    "dish": "cake|soup|pie|bread|pizza|salad|jam|pudding|stew|lemonade",
    "vase": "vase|cup|plate|lamp|bowl|mirror|teapot|clock|picture frame|jar|mug",
    "flower": "flower|rose|sunflower|bean plant|pumpkin|tomato plant|tulip|strawberry plant|carrot|apple tree",
    "inside": """under the [bed|table|sofa|stairs|rug|desk|pillow]|behind the [door|sofa|curtain|books|lamp|couch]|
        in the [closet|toy box|kitchen|bathroom|laundry basket|drawer|hall|attic|car|garage]|on the [shelf|chair]""",
    "shiny": "shiny|smooth|round|bright|strange|sparkly|glowing",
    "star": "star|moon|duck|cat|bear|house",
    "noise": "Bang|Boom|Tap, tap|Scratch, scratch|Creak|Thump, thump|Whoosh",
    "kitchen": "sugar|butter|milk|eggs|cheese|honey|oil|rice|cream|lemons|chocolate|cinnamon",
    "busy": "market|zoo|store|mall|fair|train station|parade|big market|flower market|circus",
    "helper": """tall man|old woman|big girl|big boy|bus driver|farmer|gardener|teacher|soldier|painter|mailman|
        firefighter|tall lady|old man|young man|nurse|policeman|baker""",
    "animal_helper": "An old owl|A wise crow|A big frog|A tall stork|An old turtle|A white goose|A little ant|A snail",
    "skill": """ride a bike|swim|jump rope|whistle|tie {his} shoes|skate|do a cartwheel|read a whole book|climb a rope|
        play the drum|play the piano|catch a ball|ski|write {his} name|fly a kite|dance|juggle|kick a ball far""",
    "game": "tag|hide and seek|catch|with a ball|pirates|in the sand|on the slide|on the swings|a new game",
    "funny": "funny|silly|long|happy|exciting|strange",
    "biggest": "biggest|strongest|tallest|loudest",
    "dog": "dog|cat|little brother|little sister|puppy|baby brother|baby sister",
    "hound": "dog|puppy|little dog|big dog|brown dog|black dog|white dog",
    "first_place": "school|town|world|garden|zoo",
    "far": """the moon|the North Pole|a pirate island|the bottom of the sea|a land of giants|the land of {treats}|
        the stars""",
    "built": "castle|tower|fort|tower of stones|house of sticks|castle of mud|bridge of sticks",
    "made": """a card with [hearts|flowers|stars] on it|a necklace of shells|a crown of flowers|a little boat of wood|
        a picture of the whole family|a book of stories|a bird out of clay|a frame for a photo|a pot for pens""",
    "trip": "zoo|circus|fair|animal park|big zoo|festival",
    "find": """a {shiny} shell|a {shiny} stone|an old coin|a {colour} feather|a little key|a lost glove|
        a four-leaf clover|
        a tiny crab|a {colour} button|a small bell""",
    "trouble": """there was a fire in the {park}|the river came over its banks|a thick fog came down on the {park}|
        a big storm broke the trees|a hungry wolf came to the {park}""",
    "store": "nuts|seeds|apples|berries|roots|corn|mushrooms|acorns",
    "ask": """a [brown|gray|white] [owl|goose|horse|cow]|a [big|fat|sleepy] [toad|bear|cat|pig]|
        a [tall|shy|quick] [deer|stork|hare|goat]|an old [turtle|donkey|crow|sheep]""",
    "sky": """The sun was shining.|The birds were singing in the trees.|The sky was blue.|A soft wind blew through the
        leaves.|There were flowers everywhere.|Bees flew from flower to flower.|The grass was still wet.|
        Little white clouds went by.|It smelled of {flowers}.|A {small_animal} ran past.|A plane flew over the hills.|
        The air was fresh.|The leaves were [red|gold|green] and [soft|bright].|Somewhere, a dog barked.|
        A bell rang far away.|The ground was warm.""",
    "flowers": "roses|grass|rain|honey|flowers|summer|apples|fresh bread",
    "cloth": "sock|shoe|glove|mitten|slipper|boot|towel|shirt|belt",
    "seed": "seeds|nuts|crumbs|corn|raisins|oats",
    "one_food": "strawberry|nut|acorn|cherry|plum|pear|mushroom|grape|apple|peach|berry|fig",
    "count": "stars|sheep|clouds|fireflies|leaves|birds|drops of rain",
    "laughed": "laughed|smiled|giggled|clapped {his} hands|had to laugh",
    # What people do and feel
    "hobby": """play outside|sing songs|draw pictures|run in the grass|look for bugs|read books|ride {his} bike|
        build tall towers|dance to music|play with blocks|climb trees|tell stories|paint|count the stars|jump rope|
        help {m}|splash in puddles|play hide and seek|collect [shells|rocks|leaves|stickers]|feed the birds|swim|
        make up games|look at the clouds|play in the sand|bake with {m}|play with [trains|dolls|puzzles|cars]""",
    "wild_hobby": """run in the grass|look for shiny stones|roll down the hill|sing to the moon|chase butterflies|
        play in the mud|splash in the stream|nap in the sun|jump over logs|eat sweet berries|explore the {wild}|
        play tag with the others|watch the clouds|collect [nuts|leaves|feathers|acorns]|hide in the bushes|
        tell jokes""",
    "happy": "happy|very happy|so happy|glad|full of joy|cheerful|delighted|very pleased",
    "proud": "proud|very proud|so proud|proud and happy",
    "sad": "sad|very sad|upset|so sad|unhappy|very upset",
    "scared": "scared|afraid|very scared|frightened|a little scared|worried|nervous",
    "excited": "excited|very excited|so excited|thrilled|too excited to sit still",
    "smiled": "smiled|laughed|grinned|clapped|giggled|nodded|cheered",
    "softly": "softly|quietly|in a small voice|slowly|at last|after a moment",
    "warmly": "softly|kindly|with a smile|in a gentle voice|warmly|in a soft voice",
    "loudly": "loudly|in a loud voice|with wide eyes|at once",
    "wow": "Wow|Look|Oh|Hooray|Yay|Oh my|Hey",
    "thanks": "Thank you|Thank you so much|Thank you very much|Thanks|Oh, thank you",
    "okay": "Do not worry|It is okay|It is all right|Do not be sad|Do not cry|Don't worry",
    # Endings
    "end": """The end.|They lived happily ever after.|It was [a very good day|the best day ever|a day to remember].|
        That night, {hero} [slept very well|had sweet dreams|fell asleep with a smile].|
        {hero} went home with a [big|happy|warm] smile.|{hero} [never forgot|always remembered] that day.|
        And everyone was {happy}.|{hero} could not wait for [the next day|tomorrow].""",
}

_OPEN = """Once upon a time, there was a {small} {kind} named {hero}. {trait}|
    Once upon a time, there was a {small} {kind} named {hero}. {trait}|
    Once, there was a {kind} named {hero}. {trait}|Long ago, there was a {small} {kind} called {hero}. {trait}|
    Once upon a time, a {small} {kind} named {hero} lived {living}. {trait}|
    There once was a {small} {kind} called {hero}. {trait}|{hero} was a {small} {kind}. {trait}|
    {hero} was a {small} {kind} who lived {living}. {trait}|
    There was once a {small} {kind} who lived {living}. {His} name was {hero}. {trait}"""
_TRAIT = """{He} [loved|liked] to {hobby}.|{He} [loved|liked] to {hobby} and {hobby}.|Every day, {he} liked to {hobby}.|
    [Most of all|More than anything], {he} liked to {hobby}.|{He} always had time to {hobby}.|
    {He} had a [red|blue|green|yellow|pink] [hat|scarf|bag|cap|coat] and loved to {hobby}."""

_HOBBIES = {"child": "{hobby}", "animal": "{wild_hobby}"}
for _kind, _hobby in _HOBBIES.items():
    LISTS[f"{_kind}_open"] = _OPEN.replace("{trait}", f"{{{_kind}_trait}}").replace("{living}", f"{{{_kind}_home}}")
    LISTS[f"{_kind}_trait"] = _TRAIT.replace("{hobby}", _hobby)

# Who speaks: the hero, the friend and the grown-up. "He said" is left to the hero, so that it is clear who is meant.
for _who, _prefix, _voice in (("{hero}", "", "{softly}"), ("{friend}", "f.", "{softly}"), ("{m}", "m.", "{warmly}")):
    for _verb in ("said", "asked", "cried"):
        _how = "{loudly}" if _verb == "cried" else _voice
        _tags = f"{_who} {_verb}|{_verb} {_who}|{_who} {_verb} {_how}|{_verb} {_who} {_how}"
        LISTS[_prefix + _verb] = _tags if _prefix else f"{_tags}|{{he}} {_verb}|{{he}} {_verb} {_how}"
