"""Plots of the story grammar with animals in them; ``grammar_plots`` tells how they are written."""

from __future__ import annotations

FABLES = (
    # A hurt animal
    """child pet=small_animal park=park petname=pet_name
    {child_open} {when} {he} was walking [in|through] the {park} with {m}. {He} heard a [soft|tiny|sad|weak] sound
    [near a bush|behind a tree|from the tall grass|next to the path]. {He} [looked closer|bent down|walked over to
    see]. There was a little {pet}. It [was all alone|had hurt its leg|was cold and wet|could not get up].

    "{Mom}, look!" {cried}. "[The poor {pet} needs help|It is hurt|We must help it]!"
    "[We must be very gentle|Good eyes|You are right], {hero}," {m.said}. "[Let us take it home|Let us keep it warm|We
    can give it some food]." {hero} [wrapped it in {his} scarf|put it in a soft box|carried it in {his} hat] and [took
    it home|walked home very slowly].

    Every day, {hero} gave the {pet} [water and food|something to eat|fresh water and a soft bed] and [sang to it|told
    it stories|sat by its side]. {He} named it {petname}. [Day by day|Little by little|Slowly], {petname} got [better|
    stronger|well again]. It [began to play|followed {hero} around the house|liked to sit on {his} lap]. One morning,
    {m} said, "{petname} is strong now. [It wants to go home|It misses its family|It is time to let it go]." {hero}
    was {sad}, but {he} knew that it was right.

    They went back to the {park}. {petname} [looked at {hero} one last time|touched {his} hand with its nose|jumped
    around {him} in a circle] and then [ran off|went to its family|went back to its home]. [After that, {petname} came
    to visit {him} every {sunny} day.|The next {sunny} day, {petname} came back with two little friends.|From that day
    on, {hero} waved to every {pet} {he} saw.] {hero} learned that [it feels good to help|even a small kindness is a
    big thing|sometimes you must let a friend go]. {end}""",
    # Two animals: the small one helps the big one
    """big_animal/tiny_animal food=treats park=wild
    {animal_open} {hero} was the {biggest} {kind} in the {park}, and {he} [often laughed at the little animals|thought
    that {he} did not need anyone|was very proud of it].

    {when} {he} met a [tiny|small|little] {f.kind} named {friend}. {friend} was [trying to carry some {food}|stuck in
    the mud|looking for {food}].
    "[Could you help me, please|Can you help me|Will you give me a hand], {hero}?" {f.asked}. {hero} wanted to [say no|
    walk on], but {friend} looked so [tired|sad|cold] that {he} stopped. {He} [pushed|pulled|lifted] [once|with all
    {his} might], and {friend} was [free|safe|happy] again.
    "{thanks}! One day I will help you too," {f.said}. {hero} laughed. "[You are too small to help me!|A little
    {f.kind} like you?|How funny!]" {cried}.

    {then} a [big|terrible|loud] storm came. [A tree fell|Rocks rolled down the hill|The river rose], and {hero} was
    [trapped in a hole|caught under a branch|stuck in some old rope]. {He} called and called, but [no one came|all the
    big animals had run away]. Only {friend} heard {him}. {friend} [ran through the rain|hurried over the wet leaves|
    did not wait]. {f.He} [dug and dug|pulled and pulled|worked all night|called for more little animals to help],
    until {hero} was free.

    "[I was wrong|I am sorry that I laughed at you|You saved me], {friend}," {said}. "[You are small, but your heart
    is big|You are the best friend I have|I will never laugh at you again]." From that day on, the {kind} and the
    {f.kind} [were best friends|did everything together|shared all their {food}]. {hero} learned that [even a little
    friend can be a great help|kindness comes back to you|you should never laugh at someone small]. {end}""",
    # The boast and the race
    """fast_animal/slow_animal park=wild prize=treats
    {animal_open} {He} could run [very fast|faster than the wind]. "[I am the fastest in the {park}|No one can beat me|
    Everyone else is so slow]!" {he} said every day. {friend}, a [quiet|slow|calm] {f.kind}, [was tired of it|heard
    this|listened for a long time]. "[Let us have a race|Then race with me|I will race you]," {f.said}. {hero}
    [laughed and laughed|laughed so hard that {he} fell down]. "[You|A {f.kind}]? [That is so funny|This will be
    easy]!"

    On the day of the race, all the animals came to [watch|cheer]. {animal_helper} [said|called], "One, two, three,
    go!" {hero} [ran off|jumped ahead|was far ahead in a moment]. Halfway there, {he} [stopped to eat some {prize}|lay
    down in the soft grass|stopped to look at {himself} in the pond|played with a butterfly]. "{friend} is so slow. I
    have lots of time," {he} thought. [Soon {he} was asleep.|{He} forgot all about the race.]

    {friend} did not stop. Step by step, {f.he} [went on|came closer|walked past {hero}]. [|{f.He} [sang a little song|
    thought only of the next step|did not look left or right].] When {hero} [woke up|heard the animals cheer|looked
    up], {friend} was almost there. {hero} ran and ran, but [it was too late|{friend} had won|{friend} was first].

    The animals [cheered|clapped|danced] and gave {friend} a [basket|bag|big bowl] of {prize}. {hero} was {sad}. But
    {friend} came to {him} and said, "[Come, let us eat them together.|You are very fast. Would you like some?|Do not
    be sad. I have plenty for two.]"
    "I am sorry that I [boasted|laughed at you]," {said}. They [ate|sat down and ate] side by side. {hero} learned
    [not to boast|that being kind is better than being fast|that you should never give up or laugh at others]. {end}""",
    # Magic
    """animal colour=colour thing=treats
    {animal_open} {when} {he} found a {shiny} {colour} stone [near the stream|under a leaf|on the path]. When {he}
    [touched it|picked it up|rubbed it], a [little fairy|tiny voice|soft light|small bird] came out of it.
    "[I can give you one wish|You have one wish|Make a wish], {hero}," it said. "But [think well|choose with care|be
    careful what you wish for]."

    "I wish for [all the {thing} in the world|more {thing} than I can eat|a mountain of {thing}]!" {cried}. Poof!
    There were {thing} everywhere. [|They [covered the path|filled {his} house|were higher than the trees].] {hero}
    ate and ate until {his} [tummy hurt|belly was round]. {He} could not [find {his} bed|open {his} door|move] any
    more. {friend} the {f.kind} came to play, but there was [no room|no place to play].
    "[I miss our games|This is not fun|Now we cannot play], {hero}," {f.said}, and {f.he} [went away|walked home].

    {hero} felt [lonely|{sad}|sorry]. {He} took the stone and said, "Please, [take it all away|make it as it was
    before]. I [only want my friend|want to play with {friend}|do not need so much]." The {colour} stone [shone|glowed|
    grew warm]. [In a moment|Then], the {thing} were gone, [except for two|all but a few].

    {hero} ran to {friend}. "[I am sorry|I was greedy]," {said}. "[Would you like one?|Here, these are for us.|I kept
    some for you.]"
    "{thanks}," {f.said}. "[Let us go and play|Now let us play {game}]!" And so they did. {hero} put the stone [back|
    in the stream|where {he} had found it]. {He} had learned that [having a friend is better than having many things|
    too much of a good thing is not good|friends matter more than {thing}]. {end}""",
    # The one who is different
    """animal park=wild trouble=trouble
    {animal_open} But {he} was not like the others. {He} had [a very loud voice|very big feet|very long ears|a very
    bright tail|a very long nose]. The other animals in the {park} [laughed at {him}|did not let {him} play|made jokes
    about it]. "[You look so funny|You are too strange|Go away, {hero}]!" they said. {hero} [walked away|hid in the
    bushes|went to the stream alone] and felt {sad}.

    Only {friend} the {f.kind} was kind to {him}. "[I like you just as you are|Do not listen to them|We are all
    different]," {f.said}. "[One day they will see|It makes you special|Come, let us play {game}]."
    "{thanks}, {friend}," {said}. But [at night {he} still cried|{he} still wished to be like the others|deep inside,
    {he} was still {sad}].

    {when} {trouble}. [Everyone was {scared}|Nobody knew what to do|All the animals ran around]. {hero} [did not run
    away|had an idea|knew what to do]. {He} stood on top of a [hill|big rock|log] so that everyone could [see and hear|
    find] {him}. "[Come to me|This way|Follow me]!" {cried}. "[It is safe here|I can see the way out|Stay close
    together]!" All the animals [came to {him}|followed {him}|ran up to {him}], and {he} led them [over the bridge|
    across the stream|to a dry cave]. In the end, everyone was safe.

    "[You saved us|Thank you, {hero}|We are sorry that we laughed]," the animals said. "[We were wrong|We were not
    kind to you|Please be our friend]." {hero} {smiled}. [|[They had a big party with {treats} and {dish}.|That
    evening, they all danced under the moon.|From then on, they always asked {him} to play.]] {friend} [danced|sang]
    the most. {hero} learned that [it is good to be different|what makes you different can make you strong|you should
    be proud of who you are]. {end}""",
    # Summer and winter
    """animal food=store hall=wild
    {animal_open} All summer, {he} [played and slept|lay in the sun|sang and danced]. {friend} the {f.kind} [worked
    every day|was always busy|carried food home from morning to night]. {f.He} put {food} [in a hole under a tree|in
    {f.his} house|in a big pile].
    "[Come and play|You work too much|Leave that and swim with me], {friend}!" {cried}. "[It is such a {sunny} day|The
    sun is out|Summer is long]."
    "I cannot. [Winter will come|Soon it will be cold], and [then there will be no food|I must be ready],"
    {f.said}. "[You should do it too|Please come and help me|You will see]." {hero} [only laughed|yawned|shook {his}
    head] and [went to sleep|danced away|jumped into the stream].

    [The days got short|The leaves fell down|The wind turned cold], and one morning there was snow [all over the
    {hall}|on every tree|as high as {his} nose]. {hero} was [cold|hungry|cold and hungry]. {He} looked for {food}, but
    [it was all gone|everything was under the snow|there was nothing left]. {He} [walked through the snow|went from
    tree to tree] until {he} came to {friend}'s house. There was a [warm light in the window|smell of {dish}]. {hero}
    knocked [softly|on the door].

    "[You were right|I should have listened to you|I played all summer], {friend}," {said}. "[Now I have nothing to
    eat.|I am so hungry.|May I come in?]" {friend} [looked at {him}|thought about it|opened the door wide]. "[Come in
    and get warm|I have enough for two|Friends help each other]," {f.said}. "But next year, [you will help me|we will
    do it together|we will work first and play later]."
    "I promise," {said}. They [sat by the fire|ate some {food}|shared a hot bowl of soup] and [told stories|sang|
    listened to the wind].

    When summer came again, {hero} [was the first to get up|worked next to {friend} every day|kept {his} promise]. And
    when the work was done, they [played {game}|went swimming|danced in the warm evening]. {hero} learned that [first
    you work and then you play|it is wise to think of tomorrow|a good friend is worth more than gold]. {end}""",
    # The way home, asking three animals
    """child/animal park=wild one=ask two=ask three=ask
    {child_open} {when} {he} [went for a walk in|was playing near|was picking berries in] the {park}. Under a [bush|
    tree|big leaf] sat a baby {f.kind}. It was crying.
    "[What is wrong|Why are you crying|Who are you], little one?" {asked}.
    "My name is {friend}. [I lost my mother|I cannot find my mother|I want to go home to my mother]," said the
    {f.kind}. "[I ran after a butterfly|I fell asleep|I went too far], and now I am alone."
    "{okay}. [I will help you find her|We will look for her together|We will ask everyone we meet]," {said}.

    First they met {one}. "Have you seen the mother of {friend}?" {hero} asked. "No, I have not," it said. "[But ask
    the others|I was asleep|I only just got here]." Then they met {two}. "Have you seen the mother of {friend}?"
    {hero} asked again. "[No|Not today|I wish I had]," it said. "[But I heard someone call|I saw tracks in the mud|Try
    the other side of the hill]." At last, they met {three}. "Have you seen the mother of {friend}?" {hero} asked for
    the third time. "Yes! [She went to the old bridge|She is at the stream|She is just behind that rock]," it
    said. "[She is looking everywhere|She is very worried|Hurry]!"

    They ran as fast as they could. And there she was! "[My baby|There you are|Oh, {friend}]!" cried the mother.
    {friend} [jumped|ran] [to her|into her arms] and [laughed|cried with joy].
    "[I thank you with all my heart|Thank you for your help|You are a kind {kind}], {hero}," the mother said. She gave
    {him} [some sweet {treats}|a {shiny} stone|a soft feather|a small bell]. {hero} [waved goodbye|went home|ran home
    to {m}]. {He} learned that [if you keep asking, you will find the way|helping others makes you happy|together you
    can find anything]. {end}""",
    # A puppy and a sock
    """child pet=hound petname=pet_name colour=colour thing=cloth
    {child_open} {He} had a {pet} named {petname}. {when} {hero} could not find {his} {colour} {thing}.

    "Have you seen my {thing}, {Mom}?" {asked}.
    "[No, I have not|It was here this morning|I put it on the chair]," {m.said}. "[Ask {petname}|Look outside|Look
    under your bed]." {hero} went to look for {petname}. The {pet} [lay in the sun|was digging a hole|sat behind the
    house] and had something {colour} in its mouth.
    "{petname}! That is my {thing}!" {cried}. The {pet} [ran|jumped] [around the {park}|in circles|through the
    flowers], and {hero} ran after it. Round and round they went, until they both [fell down|had to rest|rolled in the
    grass].

    {hero} {laughed}. "[You only wanted to play|You are a silly {pet}|I cannot be mad at you]," {said}. {He} gave
    {petname} an old [ball|rope|shoe], and the {pet} [dropped the {thing}|gave the {thing} back|licked {his} face].
    {end}""",
    # Hungry birds
    """child colour=colour food=seed
    {child_open} It was winter, and there was snow [on the ground|on the roofs|everywhere]. From the window, {hero}
    saw a little {colour} bird. It [looked for food|was cold|hopped from branch to branch].
    "What do birds eat in winter, {Mom}?" {asked}.
    "[It is hard for them to find food|They look for {food}|They get very hungry]," {m.said}. "[Shall we help|Would
    you like to feed it|Do you want to put something out for it]?"

    {hero} [put on {his} coat|took {his} hat] and went outside. {He} put [some {food}|bread and {food}] on [the wall|a
    plate|an old box]. Then {he} [waited|hid behind a tree|stood very still]. Soon the {colour} bird came. It ate [a
    little|everything|some of it] and flew away. The next day, it came back with [two friends|its whole family|a
    bigger bird]. {hero} {laughed}.
    "[They like it|They are not hungry any more|They are singing for us]," {said}. All winter, {he} [fed the birds|put
    out {food} every morning]. In spring, they [sang for {him}|built a nest near {his} window|sang the whole day
    long]. {end}""",
    # Half for each
    """tiny_animal/tiny_animal food=one_food
    {animal_open} {when} {he} found a big {food} [under a tree|in the grass|on a log]. At the same time, {friend} the
    {f.kind} saw it too.
    "[It is mine|I saw it first|Let go of it]!" {cried}.
    "[No, it is mine|No, I saw it first|I will not let go]!" {f.cried}. They [pulled|pulled and pulled] at it from
    both sides.

    {animal_helper} [sat in a tree and watched|heard the noise|came by]. "[Why do you fight|What is all this noise|Is
    one {food} worth a friend]?" it asked. "[It is big enough for two|Cut it in half|Two little bellies do not need so
    much]." {hero} looked at {friend}. {friend} looked at {hero}. They [both felt silly|were both sorry|began to
    laugh]. They [broke|cut] the {food} in two and [ate it side by side|sat down to eat|told each other jokes].
    "[It tastes better this way|This is the best {food} ever|I am glad you are here]," {said}.
    "[I think so too|You are right|Yes, it is good]," {f.said}. {end}""",
    # Bedtime
    """animal/big_animal park=wild thing=count
    {animal_open} One night, {he} could not sleep. The moon was [bright|round|high], and the {park} was [quiet|full of
    sounds]. {He} [turned to the left and to the right|closed {his} eyes and opened them again|counted to ten]. It did
    not help. {He} went to see {friend}, the old {f.kind}. "[I cannot sleep|I am not tired|Sleep will not come],
    {friend}," {said}. "[What can I do?|Can you help me?]"
    "[Lie down here|Come and sit with me|Look up]," {f.said}. "[Let us count the {thing}|Tell me about your day|Listen
    to the wind|I will sing you a song]."

    {hero} [lay down in the soft grass|put {his} head on {friend}'s side]. They [counted and counted|talked about the
    {thing}|were quiet for a while]. Before {he} [got to twenty|knew it|could say good night], {hero} was asleep.
    {friend} [covered {him} with leaves|smiled and slept, too|stayed with {him} until the morning]. {end}""",
)
