"""The nouns: each line gives tags, a colon, and entries of English[/plural], Spanish and gender."""

NOUNS = """
person: man/men hombre m; woman/women mujer f; king rey m; queen reina f; thief/thieves ladrón m
person: farmer granjero m; baker panadero m; singer cantante f; painter pintor m; waiter camarero m
person: soldier soldado m; actress actriz f; boy chico m; girl chica f; nurse enfermera f
person own: child/children niño m; friend amigo m; neighbor vecina f; teacher maestra f; doctor médico m
person own: student alumno m
person kin single own: father padre m; mother madre f
person kin own: brother hermano m; sister hermana f; son hijo m; daughter hija f; grandfather abuelo m
person kin own: grandmother abuela f
person name: ana ana f; elena elena f; ines inés f; maria maría f
person name: carlos carlos m; pedro pedro m; pablo pablo m; oscar óscar m

creature walker climber jumper biter own: cat gato m; monkey mono m
creature walker climber jumper biter: animal animal m; bear oso m; lion león m; fox zorro m
creature walker climber jumper biter: squirrel ardilla f; beast bestia f
creature walker climber jumper own: goat cabra f; mouse/mice ratón m
creature walker jumper biter own: dog perro m
creature walker jumper biter: wolf/wolves lobo m
creature walker jumper pack strong own: horse caballo m; donkey burro m; mule mula f
creature walker pack strong: camel camello m; elephant elefante m
creature walker strong own: cow vaca f; pig cerdo m
creature walker jumper own: rabbit conejo m; frog rana f; lamb cordero m; hen gallina f
creature walker jumper: zebra cebra f
creature walker: giraffe jirafa f
creature walker own: turtle tortuga f; duck pato m
creature walker climber biter: snake serpiente f; spider araña f; ant hormiga f
creature flyer: bird pájaro m; eagle águila f; bee abeja f

vehicle wheels motor private own: car coche m; motorcycle moto f
vehicle wheels motor carrier private own: truck camión m; van furgoneta f; tractor tractor m
vehicle wheels motor: bus autobús m; ambulance ambulancia f
vehicle wheels private own: bicycle bicicleta f
vehicle wheels carrier private own: cart carreta f
vehicle rail: train tren m
vehicle private own: boat barca f

place way: street calle f; road carretera f; path camino m; avenue avenida f; highway autopista f
place way passage: bridge puente m; tunnel túnel m
place land: field campo m; meadow prado m; valley valle m; desert desierto m; forest bosque m; jungle selva f
place land: beach playa f
place land plaza: square plaza f; park parque m
place land grounds own: garden jardín m; yard patio m
place pond: river río m; lake lago m; lagoon laguna f; stream arroyo m; pool piscina f
place height: mountain montaña f; hill colina f
barrier height: wall muro m; fence valla f
place building home own: house casa f; cabin cabaña f
place building shelter own: barn granero m; stable establo m; farm granja f
place building public own: school escuela f; office oficina f
place building public: church iglesia f; market mercado m; store tienda f; hospital hospital m; museum museo m
place building public: library biblioteca f; station estación f; restaurant restaurante m
place building grand home: castle castillo m
place building grand height: tower torre f
place town: city ciudad f; village pueblo m
place chamber own: kitchen cocina f; room habitación f; garage garaje m
place shelter: cave cueva f

thing readable written: book libro m; letter carta f; story cuento m; song canción f
thing music: guitar guitarra f; piano piano m
thing furniture: table mesa f; chair silla f; bed cama f; lamp lámpara f
thing furniture fragile: mirror espejo m; clock reloj m
opening fragile: window ventana f
opening: door puerta f
thing vessel openable: box caja f; bag bolsa f
thing vessel openable fragile: bottle botella f
thing vessel load: basket cesta f; barrel barril m; sack saco m
thing dish fragile: cup taza f; glass vaso m; plate plato m
thing tool: knife/knives cuchillo m; phone teléfono m; computer ordenador m; ladder escalera f; rope cuerda f
thing tool small: key llave f
thing clothes: hat sombrero m; shirt camisa f; shoe zapato m; coat abrigo m; dress vestido m
thing plaything small: ball pelota f; toy juguete m; bone hueso m; stick palo m
thing art small: picture cuadro m; map mapa m
thing jewel small: ring anillo m; coin moneda f; gift regalo m
thing plant: tree árbol m; flower flor f
thing load small: stone piedra f
metal mass: gold oro m; silver plata f

food fruit: apple manzana f; pear pera f; orange naranja f; banana plátano m; tomato/tomatoes tomate m
food vegetable: potato/potatoes patata f; carrot zanahoria f; onion cebolla f; egg huevo m
food made: cake pastel m; sandwich bocadillo m; cookie galleta f; salad ensalada f
food made cooked mass: soup sopa f; bread pan m
food cooked mass: rice arroz m; meat carne f
food mass: cheese queso m
drink mass: water agua f; milk leche f; juice zumo m; coffee café m; tea té m; wine vino m
"""

STRESSED_A = frozenset({"agua", "águila"})  # feminine, yet "el agua", "un águila"
