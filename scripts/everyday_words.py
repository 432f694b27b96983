"""What `everyday_prompts.py` fills its templates with: topics, activities, sentences and other words."""

from __future__ import annotations


def _of(text: str, mark: str = ",") -> tuple[str, ...]:
    """Entries of a text, blanks around them dropped."""
    return tuple(" ".join(part.split()) for part in text.split(mark) if part.strip())


TOPICS = _of("""
photosynthesis, gravity, evolution, the water cycle, electricity, magnetism, the immune system, vaccines, antibiotics,
black holes, the solar system, climate change, renewable energy, nuclear power, plate tectonics, earthquakes,
volcanoes, the greenhouse effect, DNA, cell division, the food chain, ecosystems, biodiversity, coral reefs,
rainforests, recycling, the periodic table, chemical reactions, acids and bases, atoms, light, sound waves, the speed
of light, relativity, quantum mechanics, entropy, friction, levers, the human heart, the nervous system, digestion,
sleep, memory, dreams, stress, meditation, exercise, a balanced diet, vitamins, sugar, caffeine, allergies, blood
pressure, first aid, hygiene, machine learning, artificial intelligence, neural networks, computer viruses, the
internet, cloud computing, databases, encryption, passwords, blockchain, programming, open source software, operating
systems, search engines, social media, smartphones, video games, virtual reality, robots, self-driving cars, electric
cars, bicycles, trains, airplanes, ships, space travel, satellites, telescopes, microscopes, photography, cinema,
theatre, opera, jazz, classical music, painting, sculpture, architecture, poetry, novels, fairy tales, mythology,
philosophy, ethics, logic, democracy, human rights, the rule of law, elections, taxes, inflation, interest rates,
supply and demand, unemployment, globalisation, trade, the stock market, insurance, budgeting, saving money, credit
cards, marketing, customer service, teamwork, leadership, time management, negotiation, public speaking, remote work,
job interviews, entrepreneurship, supply chains, farming, organic food, irrigation, fishing, forestry, mining, steel,
glass, paper, plastics, cotton, bread, cheese, coffee, tea, chocolate, wine, spices, the Roman Empire, ancient Egypt,
ancient Greece, the Middle Ages, the Renaissance, the printing press, the French Revolution, the Industrial
Revolution, the Silk Road, the Cold War, the United Nations, the Olympics, football, chess, tennis, swimming, yoga,
hiking, gardening, cooking, dancing, fashion, languages, grammar, translation, education, online learning, libraries,
museums, volunteering, friendship, parenting, pets, bees, whales, wolves, birds, dinosaurs, insects, trees, mushrooms,
deserts, oceans, rivers, glaciers, weather forecasts, the seasons, time zones, maps, the compass, the calendar,
probability, statistics, algebra, geometry, prime numbers, fractions, binary numbers, algorithms, recursion, version
control, web design, spreadsheets, data privacy, fake news, advertising, urban planning, public transport, smart
homes, solar panels, wind turbines, batteries, water pollution, air quality, waste disposal, overfishing,
deforestation, endangered species, migration, population growth, gender equality, poverty, healthcare, big data, 3D
printing, the steam engine, the telephone, the radio, television, newspapers, journalism, copyright, patents
""")
ACTIVITIES = _of("""
learning a new language, playing the guitar, playing the piano, cooking at home, baking bread, growing vegetables,
running a marathon, riding a bicycle, swimming, yoga, meditation, painting, drawing, writing a novel, writing a blog,
public speaking, taking photographs, travelling alone, camping, hiking in the mountains, moving to another city,
buying a house, renting a flat, saving money, investing, starting a business, finding a job, preparing for an
interview, working from home, managing a team, giving feedback, studying for exams, taking notes, reading more books,
sleeping well, staying healthy, losing weight, building muscle, eating less sugar, drinking enough water, reducing
stress, being on time, cleaning the kitchen, organising a closet, raising a puppy, keeping a cat, teaching children,
planning a wedding, hosting a dinner party, making new friends, keeping in touch with friends, learning to code,
building a website, writing clean code, debugging, designing a logo, editing videos, making a podcast, playing chess,
dancing, singing, sewing, knitting, repairing a bicycle, painting a room, driving in winter, saving energy at home,
reducing waste, recycling, shopping for food, using social media, protecting one's privacy, choosing a password,
backing up data, backing up photos, running an online shop, selling used things, fundraising, volunteering, fishing,
skiing, surfing
""")
GOALS = _of("""
bake a cake, boil an egg, make pizza dough, cook rice, brew good coffee, make a salad, prepare a healthy breakfast,
change a tyre, fix a leaking tap, paint a wall, hang a picture, remove a stain, iron a shirt, tie a tie, fold a
letter, plant a tree, grow tomatoes, keep houseplants alive, train a dog, build a birdhouse, make a paper plane, build
a campfire, read a map, learn to swim, run five kilometres, learn to juggle, play a chord on the guitar, write a poem,
write a CV, write a good email, give a presentation, prepare for an exam, learn vocabulary, improve my handwriting,
read faster, improve my memory, stop procrastinating, get up early, fall asleep faster, calm down before a test, make
a budget, save for a holiday, pay off a debt, open a bank account, ask for a raise, quit a job politely, find a
flatmate, apologise to a friend, make small talk, meet new people, resolve a conflict, plan a birthday party, organise
a meeting, pack a suitcase, choose a laptop, set up a printer, install Python, learn programming, build a simple
website, make a backup, secure a home network, clean a keyboard, take better photos, record a podcast, start a blog,
sell a car, buy a used car, rent a flat, move to another country, learn Spanish, cook for ten people, eat less meat,
reduce my electricity bill, recycle batteries, start composting, volunteer in my town, vote for the first time, write
a complaint, return a product
""")
ITEMS = _of("""
fruits, vegetables, farm animals, sea animals, birds, insects, trees, flowers, colours, countries in Africa, countries
in Asia, European capitals, rivers, mountains, planets, chemical elements, inventions, scientists, painters,
composers, musical instruments, sports, board games, hobbies, kitchen tools, breakfast dishes, soups, desserts,
spices, healthy snacks, drinks, pieces of furniture, means of transport, jobs, school subjects, programming languages,
data structures, sorting algorithms, file formats, web browsers, renewable energy sources, natural disasters,
emotions, good habits, bad habits, adjectives, verbs of motion, proverbs, idioms, literary genres, classic novels,
fairy tales, film genres, dances, materials, metals, units of measurement, shapes, parts of the body, bones,
languages, religions, holidays, polite phrases, hand tools, ways to save water, ways to say thank you, gifts for a
teacher, activities for a rainy day, icebreaker questions, goals for a new year, things to pack for a beach holiday,
questions for a job interview, topics for an essay, uses for a paper clip
""")
SUBJECTS = _of("""
a lost dog, an old lighthouse, a talking cat, the first snow, a train at night, two brothers, a secret garden, a
broken clock, a letter that arrives late, a boy who can fly, a robot that learns to feel, the last tree on earth, a
market in spring, a storm at sea, a forgotten song, a dragon who is afraid of fire, a small bakery, a walk in the
rain, the moon, the ocean, autumn leaves, a child's first day at school, a grandmother's kitchen, a journey through
the desert, a hidden door, a mysterious stranger, an honest thief, a city under water, a friendship between a fox and
a hen, a clever mouse, a lonely king, a girl who collects words, a painter who loses her sight, a teacher and her
class, a football match, an empty house, a spaceship far from home, a detective without a case, a wedding in winter, a
summer by the lake, hope, courage, time, silence, home, the wind, a river, a mountain village, a bridge between two
towns, a magic pencil, a musician in the subway, an island without a name, a race between a tortoise and a snail, a
ghost who is afraid of people, a power cut in a big city, a birthday that everyone forgot, a dream that comes true, a
bus that never stops, the sun and the moon, a cup of coffee
""")
PERSONAS = _of("""
a teacher, a doctor, a nurse, a pirate, a detective, an astronaut, a chef, a farmer, a librarian, a king, a queen, a
knight, a robot, a time traveller, a scientist, an engineer, a lawyer, a journalist, a musician, a painter, a
gardener, a baker, a bus driver, a pilot, a sailor, a firefighter, a coach, a tour guide, a shopkeeper, a software
developer, a data analyst, a project manager, a student, a grandmother, a child of six, a cat, a tree, a lighthouse
keeper, a judge, a philosopher, a poet, a film director, a carpenter, a mayor, a bee, a career adviser, a travel
agent, a historian, a vet, a receptionist
""")
PRODUCTS = _of("""
bakery, coffee shop, bookshop, bicycle, smart watch, water bottle, backpack, pair of running shoes, desk lamp, mobile
game, fitness app, language course, cookbook, board game, electric scooter, garden tool, hotel by the sea, flower
shop, podcast about history, reusable cup, organic soap, pair of headphones, laptop for students, vacuum cleaner,
travel agency, pet shop, music school, toothbrush, tea from the mountains, children's book, weather app, recipe
website, wooden toy, umbrella
""")
PLACES = _of("""
Paris, Rome, London, Tokyo, New York, Cairo, Istanbul, Barcelona, Berlin, Vienna, Prague, Lisbon, Athens, Sydney, Rio
de Janeiro, Mexico City, Beijing, Mumbai, Bangkok, Nairobi, Cape Town, Moscow, Toronto, San Francisco, Venice,
Amsterdam, Iceland, the Alps, the Sahara, the Amazon, the Grand Canyon, Scotland, a small fishing village, an old
castle, a busy airport, the moon, a quiet library, a crowded market, a deserted beach, a railway station at night, a
mountain hut, a botanical garden, a farm
""")
COUNTRIES = _of("""
France, Germany, Spain, Italy, Portugal, Greece, Poland, Sweden, Norway, Finland, Ireland, Austria, Turkey, Egypt,
Morocco, Kenya, Nigeria, Ethiopia, South Africa, India, China, Japan, South Korea, Thailand, Vietnam, Indonesia,
Australia, New Zealand, Canada, Mexico, Brazil, Argentina, Chile, Peru, Colombia, Cuba, Russia, Ukraine, Iran, Saudi
Arabia, Israel, Pakistan, Nepal
""")
NAMES = _of("""
Anna, Ben, Maria, Tom, Lucy, Omar, Priya, Chen, Sofia, David, Emma, Lucas, Mia, Noah, Olivia, Paul, Nina, Samuel,
Julia, Leo, Sarah, Ahmed, Grace, Peter, Elena, Jack, Hannah, Marco, Ruth, Victor, my neighbour, my boss, my sister, a
colleague, a customer
""")
LANGUAGES = _of("French, Spanish, German, Italian, Portuguese, Dutch, Latin, Swedish")
PROGRAMMING = _of("Python, Python, Python, Python, Python, JavaScript, Java, C, C++, Go, Rust, SQL, Bash, TypeScript")
WORDS = _of("""
apple, river, happy, quick, mountain, teacher, honest, bridge, yellow, whisper, brave, garden, winter, ancient, table,
friend, music, careful, ocean, travel, bright, curious, village, silver, gentle, market, shadow, freedom, patient,
castle, journey, planet, forest, narrow, kitchen, generous, thunder, mirror, lonely, candle, harvest, clever, window,
fragile, breeze, wisdom, puzzle, courage, rapid, doctor, island, stubborn, pencil, grateful, lantern, mystery, hammer,
peaceful, engine, blanket, ambitious, dog, horse, carrot, violin, train, doubt, sudden, elephant, square, copper, run,
jump, sing, improve, discover, explain, borrow
""")
PAIRS = tuple(
    (a.strip(), b.strip())
    for a, b in (
        pair.split("/")
        for pair in _of("""
cats / dogs, tea / coffee, trains / planes, books / films, the city / the countryside, summer / winter, a bus / a
tram, Python / Java, Python / C++, JavaScript / TypeScript, lists / tuples, arrays / linked lists, a stack / a queue,
recursion / loops, SQL / NoSQL databases, Linux / Windows, an oven / a microwave, gas cars / electric cars, renting /
buying a home, cash / cards, stocks / bonds, a debit card / a credit card, weather / climate, mitosis / meiosis,
plants / animals, bacteria / viruses, atoms / molecules, mass / weight, speed / velocity, heat / temperature, AC / DC,
planets / stars, lakes / rivers, frogs / toads, butter / margarine, rice / pasta, yoga / pilates, running / cycling,
chess / checkers, violin / guitar, poetry / prose, a metaphor / a simile, affect / effect, democracy / monarchy,
capitalism / socialism, a leader / a manager, wood / steel, online classes / classroom teaching, e-books / printed
books, emails / phone calls, savings / investments, HTTP / HTTPS, supervised / unsupervised learning, a virus / a
worm, RAM / a hard disk, wind power / solar power, fruit / vegetables, crocodiles / alligators, the moon / Mars,
introverts / extroverts, empathy / sympathy, full-time work / freelancing
""")
    )
)
CODE_TASKS = _of("""
reverses a string; checks whether a word is a palindrome; finds the largest number in a list; sorts a list of numbers;
removes duplicates from a list; counts the vowels in a text; counts how often each word occurs; computes the factorial
of a number; prints the Fibonacci numbers; checks whether a number is prime; finds all primes below n; computes the
greatest common divisor; merges two dictionaries; merges two sorted lists; flattens a nested list; transposes a
matrix; multiplies two matrices; searches a sorted list; implements a stack; implements a queue; implements a linked
list; implements a binary tree; walks a tree in order; finds the shortest path in a graph; reads a CSV file; writes a
dictionary to a JSON file; counts the lines of a file; renames all files in a folder; downloads a web page; parses a
date; converts Celsius to Fahrenheit; converts a number to binary; converts Roman numerals to numbers; validates an
email address; checks a password; generates a random password; shuffles a deck of cards; rolls two dice; plays rock,
paper, scissors; plays tic-tac-toe; simulates a bank account; keeps a shopping list; keeps a to-do list; manages a
library of books; computes the mean and the median; finds the second largest element; rotates a list; finds the common
elements of two lists; splits a list into chunks; groups words by their first letter; checks whether two words are
anagrams; capitalises every word; replaces all spaces by underscores; finds the longest word in a sentence; removes
punctuation; compresses a string by run lengths; computes the area of a circle; computes compound interest; solves a
quadratic equation; computes the distance of two points; draws a triangle of stars; prints a multiplication table;
swaps two variables; sums the digits of a number; checks for a leap year; tells the day of the week; caches the
results of a function; measures the time of a function; retries a failing call; logs errors; reads numbers from the
user; sorts a list of dictionaries by a key; filters the even numbers; finds pairs that add up to a target; finds the
missing number in a sequence; inverts a dictionary; implements bubble sort; implements quicksort; implements merge
sort
""", ";")  # fmt: skip
FACTS = _of("""
Who wrote Romeo and Juliet? | What is the largest planet? | How many legs does a spider have? | Why is the sky blue? |
What causes rain? | Who painted the Mona Lisa? | When did the Second World War end? | What is the boiling point of
water? | How do birds fly? | What is the longest river in the world? | Why do we yawn? | How many continents are
there? | What is the smallest country? | Why do leaves change colour in autumn? | What do pandas eat? | Who invented
the light bulb? | How far away is the moon? | Why is the sea salty? | What is the hardest natural material? | How do
fish breathe? | What is the currency of Japan? | Who was Marie Curie? | Who was Albert Einstein? | Who was Leonardo da
Vinci? | Who was Cleopatra? | Who was Nelson Mandela? | Who was Isaac Newton? | What causes the tides? | Why do cats
purr? | How do magnets work? | What is the square root of 144? | How does a refrigerator work? | How does a camera
work? | How is paper made? | How is glass made? | How do vaccines work? | What makes bread rise? | How do bees make
honey? | What is a haiku? | What is a mammal? | What is a noun? | What is inflation? | What is an algorithm? | What
are the primary colours? | What are the states of matter? | Name the planets in order. | Name the five senses. | What
are the seasons? | What is the difference between a fact and an opinion? | What is the meaning of life? | Can you
recommend a good film? | What is a healthy breakfast? | How much water should I drink a day? | How many hours should I
sleep? | What is your favourite book? | Who are you? | What can you help me with? | Good morning! | Thank you for your
help. | Tell me something interesting. | I feel tired today. | I had a bad day at work. | I cannot decide what to cook
tonight. | What should I wear in the rain? | Is it better to learn alone or in a group? | Why do people tell stories?
| What makes a good friend? | How can I be happier? | What is art? | Do animals have feelings?
""", "|")  # fmt: skip
SENTENCES = _of("""
The cat sat on the warm windowsill. | She forgot her umbrella at home. | We are going to the market tomorrow. | He
don't like to eat vegetables. | The project was finished by the team last week. | Please send me the report as soon as
possible. | I am very tired but I have to finish my homework. | The weather is nice today. | They has been waiting for
two hours. | My brother plays the drums every evening. | Can you help me with this box? | The old man walked slowly
along the beach. | Our company offers the best service in town. | I think the meeting should be moved to Friday. | The
children laughed when the clown fell over. | A good book is like a good friend. | The train was late again, so I
missed my appointment. | Give me the keys. | The soup was cold and the waiter was rude. | Her garden is full of roses
and butterflies. | Nobody knew the answer to the question. | The scientist discovered a new kind of beetle. | It is
important to drink enough water. | He ran as fast as he could. | The museum opens at nine o'clock. | You should always
tell the truth. | The dog chased the ball across the park. | I would like to order a pizza without onions. | The
teacher explained the rule twice. | We lost the game because we did not work together. | The lamp on the desk is
broken. | My grandmother bakes bread on Sundays. | The city built a new bridge over the river. | I have never been to
Spain. | This phone is too expensive for me. | The audience clapped for five minutes. | Where is the nearest station?
| The moon shone on the quiet lake. | Time flies when you are having fun. | She speak three languages fluently. | The
letter arrived three days too late. | Let us meet in front of the library. | The price of bread has gone up. | He
apologised for his mistake. | The bird built its nest in the old oak. | Learning takes patience and practice. | The
new law will help small shops. | I left my heart in the mountains. | The students are writing an exam. | Turn off the
lights when you leave the room.
""", "|")  # fmt: skip
OPINIONS = _of("""
The food was delicious and the staff were friendly. | I waited for an hour and nobody answered my call. | The room was
clean, but far too small. | Best headphones I have ever owned! | The film was boring and much too long. | My order
arrived broken and I want my money back. | The app keeps crashing since the last update. | I loved the ending of this
book. | The hotel is in a perfect place near the beach. | The jacket looks good, but the zip broke after a week. |
Your team solved my problem within minutes. | The course was well explained and fun. | I cannot log in to my account.
| The delivery was quick, but the box was damaged. | It does what it should. | How do I change the address of my
order? | The battery lasts only two hours. | The museum was a wonderful surprise. | Never again.
""", "|")  # fmt: skip
PASSAGES = _of("""
Honey bees live in colonies with one queen and thousands of workers. The workers collect nectar from flowers, turn it
into honey and feed the larvae. In winter they form a tight ball around the queen and keep her warm by moving their
muscles. | On Monday morning the bakery in Mill Street did not open. Neighbours found the door unlocked and the oven
cold. Mr Keller, the baker, had won a trip to Italy and told nobody but his cat. He came back on Friday with a new
recipe for bread with olives. | The town of Westbrook will build forty new flats next to the railway station. The
mayor, Linda Hart, said that families with children will be preferred. Some residents worry about noise and traffic.
Work begins in March and should take two years. | Water moves in a circle. The sun warms the sea and water rises as
vapour. High in the air it cools and forms clouds. Rain and snow bring it back to the ground, from where rivers carry
it to the sea again. | Last summer Tara and her father rowed across Lake Ansel. Halfway the wind rose and their map
fell into the water. They followed the ringing of a church bell and reached the shore after dark, wet and laughing. |
Electric buses are quieter than diesel buses and do not pollute the streets. They cost more to buy, but less to run.
Cities must also build places where the batteries can be charged at night. | In 1869 a chemist arranged the known
elements by weight and noticed that their properties repeat. He left gaps for elements that nobody had found yet.
Several of them were discovered within twenty years. | Regular walks improve the mood, strengthen the heart and cost
nothing. Doctors suggest half an hour a day. People who walk with a friend are more likely to keep going. | The
library lends more than books. Members can borrow tools, board games and even a telescope. Each item may be kept for
three weeks. Late returns cost fifty cents a day, and the money is used to buy new games. | Maya opened a small repair
shop because she was tired of throwing things away. She mends toasters, lamps and radios, and teaches children how to
use a screwdriver. In her first year she saved nine hundred machines from the dump. | The company Northwind sold fewer
shoes this year than last year. Its director, Paul Adams, blames high prices for leather. In April he will present a
cheaper model made from recycled bottles. | Chess began in India about fifteen hundred years ago. Traders took it to
Persia, and from there it spread to Europe. The queen was once a weak piece; in the fifteenth century she became the
strongest. | A volcano erupts when melted rock rises from deep inside the earth. Some eruptions are gentle, with slow
rivers of lava. Others are violent and throw ash many kilometres into the sky. The soil around volcanoes is often very
good for farming. | Our meeting on Tuesday is moved to Thursday at ten. Please bring the sales figures for May. Joan
will show the new website, and Ravi will talk about the costs. Lunch is at noon in the small dining room. | Sleep
helps the brain to store what it learnt during the day. People who sleep too little forget more and get angry more
easily. Bright screens in the evening make it harder to fall asleep.
""", "|")  # fmt: skip
