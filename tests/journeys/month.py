"""A month of one person: what they say, what the assistant notes of it, and what they want to know at its end."""

from typing import NamedTuple


class Said(NamedTuple):
    """A message, and what the model notes of it: nothing of small talk."""

    text: str
    note: str = ""
    also: str = ""
    fact: bool = False
    replaces: str = ""


class Asked(NamedTuple):
    """A question, and words of the line that answers it."""

    text: str
    answer: str


FORGOTTEN = "4711"
GONE = (FORGOTTEN, "Dr Weiss", "555 1033")
"""Words of the line that was forgotten, and of the facts that were corrected."""

MONTH = (
    (  # Friday, 6 March
        Said("hi there"),
        Said(
            "Jonas can't have hazelnuts or walnuts, they make him ill",
            "Partner Jonas is allergic to hazelnuts and walnuts",
            "food allergy husband",
            fact=True,
        ),
        Said(
            "the washing machine drips at the door, somebody comes on Wednesday",
            "The washing machine leaks at the door seal, service comes on Wednesday",
            "laundry broken appliance water",
        ),
        Said("I left the car on P3, bay 214, Heumarkt", "Car parked at the Heumarkt garage, level P3, bay 214"),
    ),
    (  # Saturday, 7 March
        Said(
            "Bought a coat! Navy wool, 189, they take it back until 4 April if I keep the receipt",
            "Bought a navy wool coat for 189 euros, can be returned until 4 April with the receipt",
            "jacket clothes shopping refund",
        ),
        Said(
            "Mia scored twice against Deutz", "Mia scored two goals at handball against Deutz", "sport match daughter"
        ),
        Said("haha yes"),
        Said(
            "Jonas' number is 0171 555 1033 by the way",
            "Jonas's mobile number is 0171 555 1033",
            "phone telephone",
            fact=True,
        ),
    ),
    (  # Sunday, 8 March
        Said(
            "Oma Hilde called, the cataract thing went well, she sees colours again",
            "Oma Hilde's cataract surgery went well, she sees colours again",
            "grandmother eye operation",
        ),
        Said(
            "Tante Gerda hat mir ihre Linsensuppe verraten: rote Linsen, Kreuzkümmel, Zitrone, zum Schluss Minze",
            "Rezept Linsensuppe von Tante Gerda: rote Linsen, Kreuzkümmel, Zitrone, am Ende Minze",
            "kochen Essen Zutaten",
        ),
        Said("Danke, das ist gut"),
    ),
    (  # Monday, 9 March
        Said(
            "Falk wants the Lindenhof library draft by the end of the month, with a facade in larch",
            "Mr Falk wants the draft of the Lindenhof library by the end of March, facade in larch",
            "boss deadline work project timber",
        ),
        Said(
            "Priya goes to the Rotterdam office in June, sad",
            "Colleague Priya moves to the Rotterdam office in June",
            "transfer Netherlands job",
        ),
        Said("ok cool, thanks a bunch"),
    ),
    (  # Tuesday, 10 March
        Said(
            "our dentist is Dr Weiss in Severinstraße",
            "Dentist: Dr Weiss, Severinstraße",
            "teeth doctor",
            fact=True,
        ),
        Said("Ben has 39.2, no kindergarten", "Ben has a fever of 39.2 and stays home", "sick ill child temperature"),
        Said("good night"),
    ),
    (  # Wednesday, 11 March
        Said(
            "Hansen was here, new seal, 86 euros. He says never buy the extended warranty",
            "Plumber Hansen replaced the seal of the washing machine for 86 euros, advises against extended warranties",
            "repair laundry washer cost",
        ),
        Said(
            "小雨推荐了一家川菜馆，蜀香园，在亚琛街，水煮鱼特别好吃",
            "小雨推荐了一家川菜馆蜀香园，在亚琛街，水煮鱼很好吃",
            "餐厅 吃饭 中餐",
        ),
        Said("你好"),
    ),
    (  # Thursday, 12 March
        Said(
            "Two chapters of The Overstory tonight, Westerford is the best so far",
            "Read two chapters of The Overstory, likes Patricia Westerford best",
            "book novel reading",
        ),
        Said("Ben sleeps better", "Ben's fever is down to 37.8", "sick temperature"),
        Said("that makes sense"),
    ),
    (  # Friday, 13 March
        Said("Ben's back at kindergarten", "Ben is well again and back at kindergarten", "healthy recovered"),
        Said(
            "Tobias from next door took my drill and the long ladder",
            "Neighbour Tobias has the drill and the long ladder",
            "lent borrowed tools",
        ),
    ),
    (  # Saturday, 14 March
        Said(
            "check-up at the dentist next Friday, half past nine, I need the insurance card",
            "Dental check-up next Friday at 9:30, bring the insurance card",
            "appointment teeth",
        ),
        Said("sowed tomatoes and basil", "Sowed tomatoes and basil in trays on the windowsill", "garden seedlings"),
        Said("lol"),
    ),
    (  # Sunday, 15 March
        Said(
            "14 km from Altenahr to Mayschoß with the Bergers, and Jonas twisted his ankle",
            "Hiked 14 km from Altenahr to Mayschoß with the Bergers, Jonas twisted his ankle",
            "walk injury foot Ahr valley",
        ),
        Said("what a day"),
    ),
    (  # Monday, 16 March
        Said(
            "parents' evening: Monschau with the class, 8 to 10 June, 145 euros",
            "Mia's class goes to Monschau from 8 to 10 June, 145 euros",
            "school trip excursion daughter",
        ),
        Said("her teacher is Frau Ostrowski", "Mia's class teacher is Frau Ostrowski", "school", fact=True),
        Said("thanks!"),
    ),
    (  # Tuesday, 17 March
        Said(
            "landlord: new heating in the week of 20 April, one of us must be in",
            "The landlord has the heating replaced in the week of 20 April, somebody must be home",
            "boiler radiator flat",
        ),
        Said(
            "Die Versicherung sagt, der Kratzer läuft unter 7731-B",
            "Schadennummer der Versicherung für den Kratzer am Auto: 7731-B",
            "Unfall Haftpflicht Wagen",
        ),
        Said("Alles klar, danke dir"),
    ),
    (  # Wednesday, 18 March
        Said(
            "Jonas got through at Rheinenergie! second interview on 2 April",
            "Jonas has a second job interview at Rheinenergie on 2 April",
            "application career",
        ),
        Said("sounds good"),
        Said("paid the gas, 94 euros", "Paid the gas bill, 94 euros", "energy utilities"),
    ),
    (  # Thursday, 19 March
        Said(
            "I do pottery now, Thursdays at seven in Ehrenfeld",
            "Signed up for a pottery course, Thursdays at 19:00 in Ehrenfeld",
            "ceramics class hobby clay",
        ),
        Said("the bike lock is 4711", "Code of the bike lock: 4711", "bicycle combination"),
    ),
    (  # Friday, 20 March
        Said(
            "small hole lower left, filled on 15 April at eight",
            "The dentist found a small cavity lower left, filling on 15 April at 8:00",
            "tooth appointment treatment",
        ),
        Said("bye"),
        Said("lost my grey glove in tram 18", "Lost a grey glove in tram 18", "missing clothes"),
    ),
    (  # Saturday, 21 March
        Said("Mia is 8 today!", "Mia's birthday: 21 March", "", fact=True),
        Said(
            "we gave her a blue scooter and a helmet with stars",
            "Mia got a blue scooter and a helmet with stars for her birthday",
            "present gift daughter",
        ),
        Said("good morning"),
    ),
    (  # Sunday, 22 March
        Said(
            "we changed dentists, it's Dr Kern in Ringstraße now",
            "Dentist: Dr Kern, Ringstraße",
            "teeth doctor",
            fact=True,
            replaces="Dr Weiss",
        ),
        Said(
            "saw Perfect Days with Jonas, we both loved it",
            "Watched Perfect Days with Jonas, both loved it",
            "film movie cinema",
        ),
    ),
    (  # Monday, 23 March
        Said(
            "Falk likes the larch, but we must save 8 percent",
            "Mr Falk is pleased with the facade, the cost of the library must shrink by 8 percent",
            "boss budget cut",
        ),
        Said("ok"),
        Said("tomatoes are up", "The first tomato seedlings are up", "garden plants"),
    ),
    (  # Tuesday, 24 March
        Said(
            "和小雨约好四月十八号去路德维希博物馆看画展",
            "和小雨约好四月十八号去路德维希博物馆看画展",
            "展览 艺术 见面",
        ),
        Said("谢谢你"),
        Said("Ben lost a tooth", "Ben lost his first milk tooth", "child teeth"),
    ),
    (  # Wednesday, 25 March
        Said(
            "Tobias brought the drill back, not the ladder",
            "Tobias returned the drill, he still has the ladder",
            "neighbour lent tools",
        ),
        Said("new running shoes, size 41, Asics", "Bought Asics running shoes, size 41", "sport clothes shopping"),
    ),
    (  # Thursday, 26 March
        Said("first bowl made!", "Made a bowl at pottery, it is glazed in two weeks", "ceramics clay"),
        Said("gracias, muy amable"),
        Said("Mia wants a hamster", "Mia wants a hamster, decision after Easter", "pet animal daughter"),
    ),
    (  # Friday, 27 March
        Said(
            "car passed, next one March 2028, brake pads in autumn",
            "The car passed its inspection, next in March 2028, brake pads to be changed in autumn",
            "garage mechanic vehicle TÜV",
        ),
        Said("nice"),
    ),
    (  # Saturday, 28 March
        Said(
            "Priya and Marc came to dinner, he's vegan, they brought rhubarb cake",
            "Dinner with Priya and Marc: Marc is vegan, they brought rhubarb cake",
            "guests cooking diet",
        ),
        Said("great evening"),
    ),
    (  # Sunday, 29 March
        Said("Ben dived for the ring!", "Ben dived for the ring at the pool for the first time", "swimming child"),
        Said("clocks changed, so tired"),
    ),
    (  # Monday, 30 March
        Said(
            "Frau Yilmaz gießt vom 10. bis 17. Mai die Blumen",
            "Nachbarin Frau Yilmaz gießt vom 10. bis 17. Mai die Blumen",
            "Urlaub Pflanzen Schlüssel",
        ),
        Said(
            "Texel is booked, 10 to 17 May, 240 deposit is paid",
            "Booked a cottage on Texel from 10 to 17 May, deposit of 240 euros paid",
            "holiday vacation rental sea",
        ),
        Said("merci beaucoup"),
    ),
    (  # Tuesday, 31 March
        Said(
            "draft is out, 17:40, two hours to spare",
            "Sent the Lindenhof draft to Mr Falk at 17:40, two hours before the deadline",
            "library drawings handed in work",
        ),
        Said("phew"),
    ),
    (  # Wednesday, 1 April
        Said(
            "Jonas has a new number, 0171 555 2044",
            "Jonas's mobile number is 0171 555 2044",
            "phone telephone",
            fact=True,
            replaces="555 1033",
        ),
        Said(
            "skin doctor: cortisone cream on Ben's elbow twice a day for ten days",
            "Dermatologist: cortisone cream on Ben's elbow twice a day for ten days",
            "rash eczema medicine ointment",
        ),
    ),
    (  # Thursday, 2 April
        Said(
            "two hours of questions for Jonas, they'll call by Tuesday",
            "Jonas's interview lasted two hours, Rheinenergie answers by Tuesday",
            "application job",
        ),
        Said("fingers crossed"),
    ),
    (  # Friday, 3 April
        Said(
            "got a used cargo bike for 1,150, frame WB 40982",
            "Bought a used cargo bike for 1,150 euros, frame number WB 40982",
            "bicycle purchase serial",
        ),
        Said("hello"),
    ),
    (  # Saturday, 4 April
        Said(
            "hid 40 eggs in Oma Hilde's garden with the kids",
            "Hid 40 eggs in Oma Hilde's garden with the children",
            "Easter family",
        ),
        Said("see you tomorrow"),
    ),
)

QUESTIONS = (  # on Sunday, 5 April
    Asked("Until when could I have taken the jacket back to the shop?", "navy wool coat"),
    Asked("How did it go with grandma's eyes?", "cataract surgery"),
    Asked("Was kam nochmal in Gerdas Suppe?", "Kreuzkümmel"),
    Asked("Which wood did my boss want for the outside of the library?", "facade in larch"),
    Asked("Where will Priya be working from summer on?", "Rotterdam office"),
    Asked("What did we pay for fixing the washer?", "for 86 euros"),
    Asked("小雨说的那家餐厅叫什么名字？", "蜀香园"),
    Asked("What was the novel I was reading a few weeks ago?", "The Overstory"),
    Asked("Who's got our ladder?", "he still has the ladder"),
    Asked("What was on 20 March?", "Dental check-up next Friday"),
    Asked("Where were we when Jonas hurt his foot?", "Altenahr"),
    Asked("How much do we have to pay for Mia's school trip?", "145 euros"),
    Asked("When do they come about our boiler?", "week of 20 April"),
    Asked("Unter welcher Nummer läuft der Schaden am Wagen?", "7731-B"),
    Asked("What company has Jonas applied to?", "Rheinenergie"),
    Asked("Which evening is the clay thing?", "Thursdays at 19:00"),
    Asked("When am I getting my tooth filled?", "15 April at 8:00"),
    Asked("What did we give Mia when she turned eight?", "blue scooter"),
    Asked("What's the film that Jonas and I liked so much?", "Perfect Days"),
    Asked("By how much do we have to cut the budget?", "8 percent"),
    Asked("我什么时候跟小雨去看展览？", "四月十八号"),
    Asked("What did the garage say about the brakes?", "brake pads"),
    Asked("Marc is coming again, what can't he eat?", "Marc is vegan"),
    Asked("Wer kümmert sich um unsere Pflanzen, wenn wir weg sind?", "Frau Yilmaz"),
    Asked("Have we paid anything for our vacation yet?", "deposit of 240"),
    Asked("How long does Ben need that ointment?", "for ten days"),
    Asked("What's the serial number of the new bicycle?", "WB 40982"),
    Asked("What did we do yesterday?", "40 eggs"),
    Asked("Who do I call about my teeth?", "Dr Kern"),
    Asked("What can I dial to reach Jonas?", "555 2044"),
)

ABOUT_WHAT_IS_GONE = (
    "What's the combination of the bike lock?",
    "Was our dentist the one in Severinstraße?",
    "What was Jonas's old mobile number?",
)
