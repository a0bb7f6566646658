"""Plots of the story grammar in which children are at home, at school and on the way.

The first line of a plot tells the kinds of its cast and what is fixed: ``toy=light_toy`` draws ``{toy}`` once from the
list "light_toy". A line that begins with speech, and an empty line, begin a paragraph.
"""

from __future__ import annotations

from rb_interp.text.grammar_fables import FABLES

CHILDREN = (
    # Something is lost and found.
    """child toy=toy colour=colour spot=inside first=inside second=inside
    {child_open} {His} [favorite|best] toy was a {colour} {toy}. [|It was a gift from {m}.|{He} took it everywhere.|
    {He} [played|slept] with it every [day|night].]

    {when} {hero} could not find {his} {toy}. {He} looked {first}, but it was not there. {He} looked {second}, but [it
    was not there either|there was only dust|all {he} found was an old sock]. {hero} [felt {sad}|was {sad}|sat down
    and began to cry|had tears in {his} eyes].

    "[What is wrong|Why are you crying|What happened], {hero}?" {m.asked}.
    "I [lost|cannot find] my {toy}!" {cried}. "[I looked everywhere.|What if it is gone?|I miss it so much.]"
    "{okay}," {m.said}. "[Let us look for it together.|I will help you.|Where did you play with it last?]"

    They looked [high and low|all over the house|in every room]. {then} {hero} [saw|spotted] something {colour}
    {spot}. It was [the|{his}] {toy}! [{His} {dog} had hidden it there.|It had been there all the time.|{He} had left
    it there the night before.]
    "{wow}! [I found it|Here it is|There it is]!" {cried}. {He} [hugged {m}|hugged the {toy}|jumped up and down] and
    was {happy}. [From then on, {hero} always put {his} toys away.|{hero} learned to take good care of {his} things.|
    After that, {hero} put the {toy} in a safe place every night.] {end}""",
    # Sharing
    """child food=treats park=park
    {child_open} {when} {m} gave {him} a [big|little|small] bag of {food}. {hero} [took it to|carried it to|walked
    with it to] the {park}. [|The {food} [smelled so good|looked very yummy|were sweet and fresh].]

    In the {park}, {he} met {friend}. {friend} [had nothing to eat|was hungry|had dropped {f.his} snack] and looked
    {sad}.
    "[May I have some|Can I have one|Will you share with me], please?" {f.asked}.
    "No! [They are mine|They are all for me|I want all of them]!" {cried}. {friend} [walked away|sat down alone|went
    to sit by a tree] and [did not say a word|began to cry|looked at the ground].

    {hero} ate [one|two|some], but the {food} did not taste [so good|very good] any more. {He} looked at {friend} and
    felt [bad|sorry|sad]. {He} [thought about what {m} always said|remembered how it felt to be hungry|knew that {he}
    had not been kind]. {hero} went to {friend} and [held out|opened] the bag. "I am sorry," {said}. "[Please have
    some|You can have half|Let us share them]."
    "{thanks}!" {f.cried}. {f.He} {smiled}.

    They sat [under a tree|on a bench|in the grass|on the swings] and ate the {food} together. {then} they [played
    {game}|ran around the {park}|told each other {funny} stories]. {hero} learned that [sharing makes food taste
    better|it is more fun to share|sharing makes everyone happy|a good friend shares]. {end}""",
    # Fear
    """child noise=noise
    {child_open} But {hero} was [scared|afraid] of [the dark|storms|loud noises at night].

    One [dark|cold|rainy|windy|stormy] night, {he} heard a [strange|loud|scary|funny] sound. {noise}! {hero} [hid
    under the blanket|held {his} pillow tight|pulled the blanket over {his} head].
    "{Mom}! [Please come|Help|Come here]!" {cried}. "[There is a monster|There is something|I hear something] [out
    there|by the window|behind the window]!"

    {M} [came in|came right away|ran into the room] and sat [on the bed|next to {him}]. "{okay}," {m.said}. "[Let us
    look together.|Do you want to see what it is?|We can be brave together.]" {hero} took {m.his} hand. [|{His} [heart
    beat fast|knees shook|hands were cold].] They [walked slowly to the window|went to the window|opened the window].
    There was no monster at all. It was only [a branch that tapped on the glass|a {small_animal} that wanted to come
    in|the wind in the old tree|the cat, who was playing with a {toy}]!

    {hero} began to laugh. "[That is not scary|I was so silly|It was so small], {Mom}," {said}.
    "You were very brave," {m.said}. "[Being brave means that you try even when you are scared|Things often look
    bigger in the dark|Now you know that you can look]." {M} gave {him} a [kiss|big hug|small lamp shaped like a
    {star}]. {hero} [closed {his} eyes|lay down again] and was not [afraid|scared|frightened] any more. {end}""",
    # The truth
    """child vase=vase plaything=toy
    {child_open} {M} had a [beautiful|pretty|very old|special] {vase}. "Please [be careful with it|do not play near it|
    do not touch it]," {m} always said.

    {when} {hero} was playing with {his} {plaything} [in the house|in the living room|in the hall]. {He} [ran too fast|
    jumped too high|threw it too hard|did not look]. Crash! The {vase} [fell down|hit the floor] and broke into [many|
    little|a hundred] pieces. {hero} was {scared}. {He} [hid the pieces in a box|swept the pieces under the rug|ran to
    {his} room and shut the door].

    When {m} came [home|in], {m.he} asked, "{hero}, [where is my {vase}|do you know what happened to my {vase}|have
    you seen my {vase}]?"
    "[The cat did it|I do not know|The wind did it]," {hero} said. But {he} felt [bad|sick|terrible] inside. {He}
    could not [eat {his} dinner|look at {m}|play any more]. At last, {hero} [took a deep breath|went to {m}|began to
    cry]. "I [broke it|did it], {Mom}," {said}. "I am [so|very] sorry. [I was afraid|I should have told you|I will
    never lie again]."

    {M} [gave {him} a hug|took {his} hand|was quiet, then smiled]. "I am [sad|a little sad] about the {vase}, but I am
    glad that you told me the truth," {m.said}. {then} they [cleaned up together|glued the pieces together|made a new
    one out of clay|went out to buy a new one]. {hero} felt [much better|light again|{happy}]. {He} learned that [it
    is always best to tell the truth|a lie makes you feel bad|telling the truth takes courage]. {end}""",
    # Cooking
    """child dish=dish one=kitchen other=kitchen
    {child_open} {when} {he} wanted to make {dish} with {m}. It was for [{friend}|{his} teacher|a sick neighbor|the
    whole family|{his} baby sister].

    They [washed their hands|put on their aprons|got out a big bowl]. They had [flour|salt|water] and {one}, but there
    was no {other}.
    "Oh no! [We cannot make it without {other}|We need it for our {dish}|There is none left]," {said}. "[What can we
    do|What now], {Mom}?"
    "{okay}. [Let us ask next door|We can go to the store|Maybe our neighbor has some]," {m.said}. {hero} [ran to the
    house of {friend}|went next door and knocked|took {his} basket and went out]. "[May I have|Do you have|Can I get]
    some {other}, please?" {asked}.
    "[Of course|Yes|Sure]! [Take as much as you need|Here you are|I have plenty]," said [the old woman|the nice man|
    {friend}|the kind lady].

    {hero} [ran|hurried|skipped] home. {He} [stirred|mixed|poured] and {m} [cut|cooked|tasted]. {He} got [flour on
    {his} nose|some on {his} shirt|sticky fingers], and they both laughed. {then} the whole house smelled [sweet|good|
    wonderful]. The {dish} was [ready|done] at last!
    "[It is the best {dish} ever|This tastes so good|Yum]!" {cried}. "[Can we make it again tomorrow|Can I have some
    more|May I stir it next time], {Mom}?" {M} {smiled}. They [took some to {friend}|shared it with everyone|gave the
    first piece to the kind neighbor] to say thank you. {hero} learned that [good things are made together|it is okay
    to ask for help|making food for others is fun]. {end}""",
    # Practice
    """child skill=skill
    {child_open} There was one thing {hero} could not do. {He} could not {skill}. {friend} could {skill} very well,
    and {hero} wanted to do it too.

    {when} {hero} [tried|tried it for the first time|went outside to try]. {He} [fell down|could not do it|got it all
    wrong|bumped {his} knee]. {He} tried again, but [it did not work|it was too hard|it went wrong again].
    "I [will never learn it|cannot do it|give up]!" {cried}. {He} [kicked a stone|sat on the ground|wanted to go
    home]. {friend} [came over|sat down next to {him}|heard {him}]. "I could not do it [at first|the first time|for a
    long time]," {f.said}. "[I had to try every day|It took me a long time|You need to go slowly]. [I can show you|Let
    us try together|Watch me]."

    So they [worked on it|tried] [every day|each morning|after school]. [|[Some days were hard|It was not easy|
    Sometimes {hero} wanted to stop], but {he} [did not give up|kept trying|tried one more time].] {friend} [held
    {his} hand|cheered for {him}|showed {him} how] and said, "[You are getting better|Almost|Good try|You can do it]!"

    Then, one {sunny} day, it happened. {hero} could {skill}! "{wow}! [I did it|Look at me|I can do it]!" {cried}.
    {friend} {smiled}. {M} [saw it too|came out to see] and was {proud}. "[I knew you could do it|You worked so hard|
    Well done]!" {m.said}. {hero} learned that [you get better when you practice|if you keep trying, you can do it|
    hard things become easy if you do not give up]. {end}""",
    # Lost
    """child place=busy toy=toy colour=colour
    {child_open} {when} {he} went to the {place} with {m}. "[Stay close to me|Hold my hand|Do not run off]," {m.said}.

    But {hero} saw [a {colour} {toy}|a man with balloons|a funny {small_animal}|a lady in a {colour} dress] and [ran
    over to look|stopped to look|went closer to see it]. When {he} turned around, {m} was not there. {hero} [looked
    left and right|looked all around|called and called]. [|There were [so many people|only strangers|big legs
    everywhere].] {He} felt {scared}. "{Mom}! [Where are you|Where did you go]?" {cried}.

    {hero} [remembered|thought of] what {m} had told {him}. "If you are lost, [stay where you are|ask for help|do not
    walk away with strangers]." So {he} [stood still|sat down on a bench|went to someone who worked there].
    "[Are you lost|Is something wrong|Are you all right], little one?" asked [a police officer|a woman|a lady in a
    {colour} [coat|hat]].
    "Yes. I [cannot find|lost] my {mom}," {said}. "[My name is {hero}|{m.He} has a long coat|I was looking at
    something]."
    "{okay}. [We will find {m.him}|You did the right thing|I will call {m.him}]," she said.

    {then} {hero} heard {his} name. It was {m}! {hero} [ran into {m.his} arms|gave {m.him} a big hug|held on very
    tight].
    "I was so worried," {m.said}. "[I am glad you are safe|You were smart to ask for help|Please stay with me next
    time]."
    "I [will not run off again|am sorry|promise to stay close], {Mom}," {said}. They [held hands all the way home|
    thanked everyone and went home|got ice cream before they went home]. {hero} learned to [stay close|listen to {m}|
    hold hands in a busy place]. {end}""",
    # Stuck in a tree
    """child toy=light_toy colour=colour park=park helper=helper
    {child_open} {when} {he} [took|brought] {his} [new|best|favorite] {colour} {toy} to the {park}. {friend} came too.
    They [played|ran and laughed] until a [big|strong|sudden] wind came. [Whoosh|Swish]! The {toy} went up, up, up and
    got stuck in a [tall|high|big old] tree.

    "Oh no! My {toy}!" {cried}. "[How can we get it down|Who can help us|What can we do]?"
    "[Let us throw a stick|I can climb up|Let us jump]," {f.said}. {friend} [tried|tried very hard], but the [tree|
    branch] was too [high|tall]. [|They shook the tree, but [nothing happened|only leaves fell down|a nut fell on
    {friend}].] {hero} was {sad}.

    Then a {helper} [came by|walked by|heard them|stopped under the tree]. "[Do you need help|Why are you so sad|What
    is the matter]?" the {helper} asked.
    "Oh, please help us. [My {toy} is stuck|The wind took my {toy}|We cannot reach my {toy}]," {said}.
    "[I have an idea|I can help|Leave it to me]," said the {helper}. [With a long stick|With a ladder|With one big
    jump|After a little climb], the {toy} came [free|down|loose]. It [fell|floated|dropped] [right into {his} hands|
    down to the grass|onto a soft bush].

    "{thanks}!" {hero} and {friend} [said|cried|called] together. "[Do you want to play with us|Would you like a
    {treat}|Can you stay and play]?"
    "[I would love to|Yes, that would be nice|Oh yes]," the {helper} said. They all [played|sat in the grass|had a
    good time] until [the sun went down|it was time to go home|the stars came out]. {hero} learned that [it is good to
    ask for help|there are kind people everywhere|a new friend can come at any time]. {end}""",
    # A new child
    """child game=game toy=toy place=first_place
    {child_open} {when} [there was a new {f.kind} at school|a new family moved in next door|a new {f.kind} came to
    live on {his} street]. {f.His} name was {friend}.

    {friend} [stood alone by the wall|sat all alone under a tree|did not talk to anyone|held {f.his} {toy} and looked
    at {f.his} shoes]. [|[Some children laughed at {f.his} funny hat.|The others did not ask {f.him} to play.|Nobody
    knew what to say to {f.him}.]] {hero} [felt sorry for {f.him}|knew how it felt to be new|remembered {his} own
    first day]. {He} [walked over|went up to {f.him}|put down {his} {treat}] and smiled at {f.him}.
    "Hi, [I am|my name is] {hero}. [Do you want to play|What is your name|Would you like to sit with me]?" {asked}.
    "[I am|My name is] {friend}," {f.said}. "[I do not know anyone here|I am a bit shy|I miss my old friends]."
    "[You know me now|That is easy to fix|Then I will be your first friend here]," {said}. "Come with me!"

    They [played {game}|went on the slide|drew a big map of the {place}|built a tower] and {friend} showed {hero}
    {f.his} {toy}. {sky} [Soon {friend} was laughing.|{friend} knew a lot of {funny} stories.|{f.He} was very good at
    it.] [One by one|After a while], the other children [came to play too|wanted to join in|asked if they could play].
    {friend} was not [alone|shy|sad] any more.

    At the end of the day, {friend} gave {hero} [a {treat}|a big hug|a drawing of the two of them]. "[I am so glad I
    met you|You are my best friend|See you tomorrow], {hero}!" {f.cried}. [|[{hero} was {happy} too.|{hero} told {m}
    all about it.]] {hero} learned that [one kind word can make a friend|it is easy to make someone smile|nobody
    should have to play alone]. {end}""",
    # A birthday that nobody seems to remember
    """child gift=toy colour=colour
    {child_open} Today was a special day. It was {his} birthday! {hero} [jumped out of bed|woke up very early|ran down
    the stairs]. {He} was {excited}.

    But {m} [was busy and only said good morning|did not say anything about it|only asked {him} to eat {his}
    breakfast]. [At school|Outside], {friend} [said {f.he} had no time to play|ran off quickly|only talked about a
    {small_animal}]. Even the [baker|bus driver|mailman|teacher|old man next door] [walked by without a word|did not
    wave].
    "[Everyone forgot my birthday|Nobody remembers what day it is|They do not like me any more]," {hero} thought. {He}
    [walked home slowly|kicked a stone all the way home|sat on the steps alone] and felt {sad}.

    It was [dark and quiet|very quiet] in the house. {hero} [opened the door|turned on the light|went into the
    kitchen].
    "Surprise!" [everyone shouted|called many voices]. There were {colour} balloons [on every chair|everywhere|up to
    the ceiling] and a big cake with [five|six|seven] candles. {M}, {friend} and all {his} friends [were there|began
    to sing|clapped their hands].
    "Did you think we forgot?" {m.asked}. "[We wanted to surprise you|It was hard to keep the secret|We worked on it
    all day]."

    {hero} [laughed and cried at the same time|could not believe it|gave everyone a hug]. {friend} gave {him} a
    {colour} box. In it was a {gift}, just the one {he} had [wanted|wished for]. They [ate cake|danced|played {game}]
    and [sang songs|told {funny} stories|played music] until [it was late|the moon came up]. "This is the best
    birthday ever," {said}. "{thanks}!" {hero} learned that [the people who love you do not forget you|some secrets
    are good secrets|waiting can bring a big surprise]. {end}""",
    # A seed
    """child flower=flower colour=colour animal=small_animal
    {child_open} {when} {m} gave {him} a [tiny|small|little] seed. "[Put it in the ground|Plant it and wait|If you
    take care of it], [and it will grow|and you will see something nice]," {m.said}. {hero} [dug a hole in the garden|
    took a {colour} pot|found a sunny place by the wall] and [put the seed in|pushed the seed into the soft dirt].
    {He} gave it some water.

    The next day, {he} ran out to look. There was [nothing|only dirt]. {He} looked again the day after that, and
    [still there was nothing|nothing had changed].
    "[Why does it not grow|Is my seed broken|When will it grow], {Mom}?" {asked}.
    "[You have to wait|Good things take time|Be patient]," {m.said}. "[It needs sun and water|It is sleeping in the
    ground|It is growing where you cannot see it]."

    So {hero} waited. {He} [gave it water every morning|sang to it|sat next to it and read to it]. {sky} When a
    {animal} [came to dig there|sat down next to it|wanted to eat it], {he} [sent it away|gave it some bread instead|
    asked it to go away]. {friend} [laughed|came by] and said, "[It is only dirt|You are watching nothing|Come and
    play, it will not grow]." But {hero} [did not give up|only smiled|went on].

    Then, one {sunny} morning, {he} saw something small and green. "{wow}! [It is growing|It is here|Look at it]!"
    {cried}. [Day by day|Week by week|Every day], it got [bigger|taller|stronger]. By summer, it was a [big|beautiful|
    fine] {flower}. {friend} came to see it. "[It is so pretty|You were right|I want to plant one too]," {f.said}.
    {hero} gave {f.him} a seed and {smiled}. {hero} learned that [good things need time|it pays to be patient|if you
    care for something, it will grow]. {end}""",
    # A box on a rainy day
    """child colour=colour far=far beast=big_animal
    {child_open} [One rainy day,|One wet afternoon,|It rained and rained one morning, and] {he} could not go outside.
    [|[The rain hit the windows|There were puddles everywhere|The sky was gray].] "I have nothing to do," {said}. "[I
    am so bored, {Mom}.|This is a bad day.|When will it stop, {Mom}?]" {M} [thought for a moment|smiled|went to the
    garage] and came back with a big [box|brown box]. "[Look what I have|This is for you|It is only a box, but maybe
    it is something else]," {m.said}.

    {hero} [walked around it|looked inside|sat down in it]. Then {he} had an idea. {He} [drew windows on it|painted it
    {colour}|put a pillow in it|made a wheel out of a plate]. It was a [ship|rocket|bus|plane|train] now! {friend}
    came over in {f.his} [yellow|blue|green] boots. "Can I come too?" {f.asked}.
    "[Yes, jump in|Of course|Hurry, we are about to leave]!" {cried}. "[We are going|We will fly|Our trip goes] to
    {far}."

    They went [up and down|over the hills|through thick fog|past the clouds]. They saw [a {beast} with a hat|a
    {colour} {beast}|a {beast} who could sing|ten tiny stars]. "[Watch out|Hold on|Look over there]!" {f.cried}. They
    [hid from a storm|found a box of gold|made friends with a dragon|landed on soft sand]. When they were hungry, {m}
    brought them [a {treat}|{treats} and milk|some {dish}]. They ate [in the box|on the floor of the box|without
    getting out].

    "[Look|Oh], the rain has stopped," {m.said}. But {hero} [did not want to go outside any more|only shook {his} head|
    laughed]. "[We are not home yet|We still have far to go|We have to see {far}], {Mom}," {said}. {hero} learned that
    [you do not need much to have fun|a rainy day can be the best day|you can go anywhere if you pretend]. {end}""",
    # Knocked over
    """child thing=built place=park pet=hound
    {child_open} {when} {he} built a [big|tall|beautiful|great] {thing} in the {place}. {sky} It took {him} [all
    morning|a long time|hours]. {He} put [a paper star|a small flag|a feather|some shells|a {colour} stone] on
    top. "[It is perfect|Look how big it is|This is my best one]," {said}.

    Just then, {friend} came running with {f.his} {pet}. {f.He} [did not look where {f.he} was going|was looking at a
    bird|tripped over a stone]. [Bump|Crash|Oops]! The {thing} [fell down|was broken|was gone].
    "[You broke my|Look what you did to my|You ran over my] {thing}!" {cried}. {His} face got [red|hot], and {he}
    [wanted to push {friend}|stomped {his} feet|threw {his} hat on the ground].
    "[I did not mean to|It was an accident|I did not see it]," {f.said}. {f.He} [looked at the ground|began to cry|was
    very sorry].

    {hero} [took a deep breath|counted to ten|walked away for a moment]. {He} was still [angry|mad|sad], but {he} saw
    that {friend} was sad too.
    "I know you did not do it on purpose," {said}. "[Will you help me build it again?|Let us make a new one.|I should
    not have yelled.]"
    "Yes! [I will help you|We can make it even bigger|I am good at building]," {f.said}.

    They worked [side by side|together|fast]. {friend} [brought more stones|dug a deep hole around it|made a road to
    it], and {hero} [made the top|patted it with {his} hands|gave it a door]. [|The {pet} [watched|lay down to sleep|
    helped to dig].] The new {thing} was [bigger|better|even more beautiful] than the first one. {M} [came and took a
    picture|clapped when {m.he} saw it]. "Did you do that together?" {m.asked}. "[How nice|I am proud of you both|What
    a good team]!" {hero} learned that [it is good to forgive|anyone can make a mistake|two can build more than one].
    {end}""",
    # A gift without money
    """child gift=vase want=made colour=colour
    {child_open} It was almost {m}'s birthday, and {he} wanted to give {m.him} [a gift|a present|something special].
    {He} [went to the store|looked in the window of a shop|walked to the market] and saw a [pretty|lovely|{shiny}]
    {gift}.
    "How much is it?" {asked}. It cost [ten|twenty|fifty] dollars. {hero} [opened {his} hand|looked in {his} pocket|
    counted {his} coins]. {He} had only [one dollar|two dollars|three coins and a button]. {He} felt {sad}.

    On the way home, {he} met {friend}. "[Why do you look so sad|What is wrong|What happened], {hero}?" {f.asked}.
    "[I want to give my {mom} something nice|I need a present for my {mom}], but I do not have enough money," {said}.
    {friend} [thought hard|sat down to think|looked at the sky]. "[You could make something|You do not need money|The
    best presents are made by hand]," {f.said}. "[I have paper and glue|I will help you|You are good at making
    things]."

    So they [sat down at the table|went to {friend}'s house|worked all afternoon]. {hero} [cut and painted|used
    {colour} paint|looked for flowers and leaves] and made {want}. It [was not easy|took a long time|had a few spots],
    but {he} made it with love. [|{He} [put it in a box with a {colour} ribbon|hid it under {his} bed|wrote {m.his}
    name on it].]

    On the birthday, {m} opened it [slowly|carefully]. {m.He} [did not say anything at first|had tears in {m.his} eyes|
    smiled from ear to ear]. "[You made this for me|It is so beautiful|This is the best present of all], {hero},"
    {m.said}. {m.He} [gave {him} a big hug|put it where everyone could see it|held it close to {m.his} heart]. {hero}
    learned that [a gift does not have to cost money|what you make with love is worth the most|it is the thought that
    counts]. {end}""",
    # An outing
    """child place=trip animal=big_animal food=treat thing=find
    {child_open} {when} {m} said, "[Guess where we are going|Put on your shoes|I have a surprise]! We are going to the
    {place}." {hero} was {excited}. {He} [put on {his} [red|blue|green] hat|packed {his} bag|took {his} {toy}] and
    [ran to the car|waited by the door|called {friend}].

    [|[The bus was full of people.|They drove for a long time.|They walked down a long road.]] {hero} [looked out of
    the window|counted the trees|sang a song]. "Are we there yet?" {asked}.
    "[Almost|Not yet|Just a little more]," {m.said}. And then they were there.

    {sky} First, they [saw a {animal}|fed a {small_animal}|watched a man with a {colour} drum|rode on a little train].
    Then they [ate a {food} on a bench|had a picnic on the grass|bought a {food} from a man with a cart]. {hero}
    [dropped some, and a bird came to eat it|got some on {his} nose|gave half of it to {m}]. {then} {he} found {thing}
    [in the grass|on the ground|next to the path]. "Look, {Mom}! [What is it?|Can I keep it?|It is so pretty!]"
    {cried}. {M} [looked at it closely|bent down|held it up to the sun]. "[You have good eyes|That is very special|
    What a nice find], {hero}," {m.said}. "[Let us show it to {friend}|You can put it on your shelf|Let us find out
    who lost it]."

    Soon [the sun went down|it was time to go|it got late]. {hero} was [tired|sleepy], but {happy}. On the way home,
    {he} [leaned on {m}|told {m} what {he} liked best|held {his} treasure in {his} hand]. "[I want to come back soon|
    Thank you for today|I love the {place}], {Mom}," {said}.
    "[We will come again|Sleep well, {hero}|I had fun too]," {m.said}. {end}""",
    # The doctor
    """child toy=toy colour=colour food=treat
    {child_open} {when} {hero} did not feel well. [{His} tummy hurt.|{His} tooth hurt.|{His} ear hurt.|{He} was hot
    and very tired.] {He} did not want to [eat {his} {food}|play with {his} {toy}|get out of bed].
    "[We should go to the doctor|Let us see the doctor|The doctor can help you]," {m.said}.
    "[Do I have to go|Can we stay here|Will it hurt], {Mom}?" {asked}. {He} [held on to {his} {toy}|hid behind the
    door|began to cry].

    {M} sat down next to {him}. "{okay}. [I will be with you|You can bring your {toy}|I was afraid too when I was
    little]," {m.said}. At the doctor's, there was a [big {colour} chair|fish tank|box of books]. {friend} from school
    was there too. "[The doctor is very nice|It does not hurt|I got a sticker]," {f.said}. {hero} [sat down|took
    {m.his} hand|was quiet]. The doctor [smiled|shook {his} hand|said hello to the {toy}] and said, "[Open wide|Take a
    deep breath|Let me look at the {toy} first]." [The doctor listened to the {toy} too, and {hero} laughed.|{hero}
    was brave and did not move.|It tickled a little.]

    "All done! [You need some rest|Drink a lot of water|Take this for three days]," the doctor said. "And this is for
    being so brave." It was a [{colour} balloon|shiny sticker|sticker of a {big_animal}].
    "[That was easy|It did not hurt at all|I was brave]!" {cried}. {M} [gave {him} a kiss|was {proud}|made {him} some
    {dish} at home].

    After [a few days|two days|a good sleep], {hero} felt [much better|well again|fine]. {He} [ran outside to play
    with {friend}|played doctor with {his} {toy}|told {friend} all about it]. {hero} learned that [doctors are there
    to help|being brave is easier when someone is with you|new things are often not so scary]. {end}""",
)

PLOTS = CHILDREN + FABLES
