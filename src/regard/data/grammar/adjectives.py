"""The adjectives: English, Spanish, and after the colon the tags or nouns that they fit.

SER holds what things are, ESTAR how they are. A leading "<" stands before its noun in Spanish, "+" takes "very" but
not "too", "!" neither. What fits a noun here is what the grammar says of it; what fits only one of two nouns decides
what "it" is.
"""

SER = """
big grande: creature vehicle place barrier opening thing
large grande: creature vehicle place barrier opening thing
small pequeño: creature vehicle thing opening chamber building town grounds person
tall alto: person giraffe tree
high alto: height
low bajo: barrier hill table bed chair
short corto: way rope dress coat stick readable
long largo: way rope dress coat valley beach
young joven: person creature
old viejo: person creature vehicle building furniture clothes book letter picture
new nuevo: vehicle public furniture clothes tool dish toy
+beautiful hermoso: creature place jewel art plant readable music
+<good bueno: person dog horse readable
<bad malo: person readable
!<first primero: readable vehicle gift picture student soldier child man woman fruit door window street bridge house
!<last último: readable vehicle gift picture student soldier child man woman fruit door window street bridge cookie
!<other otro: man woman boy girl child friend neighbor teacher doctor student creature thing vehicle opening way
+intelligent inteligente: person dog monkey horse
+clever listo: person fox cat dog squirrel
lazy perezoso: person walker
+strong fuerte: person strong bear lion
+rich rico: person
+kind amable: person
+famous famoso: person museum restaurant castle picture book story song
shy tímido: person walker
+curious curioso: person walker
fat gordo: walker king baker
stubborn terco: person walker
fast rápido: vehicle horse
slow lento: walker vehicle
heavy pesado: wheels vessel load furniture piano
noisy ruidoso: plaza street avenue highway city public chamber shelter home grand grounds
dangerous peligroso: way height pond land cave city
wide ancho: way valley river stream lagoon field beach square
narrow estrecho: street road path bridge tunnel cave stream
deep profundo: pond cave valley
steep empinado: street road path mountain hill avenue
expensive caro: vehicle clothes furniture jewel music tool fruit drink restaurant metal
cheap barato: vehicle clothes furniture jewel music tool fruit drink restaurant metal
!red rojo: vehicle clothes apple tomato flower furniture toy vessel opening house
!blue azul: vehicle clothes flower furniture toy vessel opening house bird
!green verde: vehicle clothes furniture toy vessel opening apple frog
!yellow amarillo: vehicle clothes flower furniture toy vessel opening bird
!white blanco: vehicle clothes flower furniture opening house barrier cat dog horse rabbit mouse
!black negro: vehicle clothes furniture cat dog horse spider ant bear goat
!brown marrón: bear cow horse dog bag shoe coat furniture squirrel
!spanish español: person readable clothes wine cheese
!french francés: person readable clothes wine cheese bread
"""

ESTAR = """
tired cansado: person walker
exhausted agotado: person walker
sick enfermo: person walker
+happy contento: person
sad triste: person
angry enfadado: person walker
hungry hambriento: person walker
thirsty sediento: person walker
scared asustado: person walker
nervous nervioso: person walker
confused confundido: person walker
distracted distraído: person walker
restless inquieto: person walker
bored aburrido: person walker
busy ocupado: person
+wounded herido: person walker
cold frío: made cooked potato egg drink chamber shelter home bed pond
dirty sucio: chamber shelter street home water milk clothes dish furniture vessel plaything pond square yard
full lleno: vessel cup glass bus train restaurant market
empty vacío: desert vessel cup glass street avenue road highway square shelter home chamber public
!open abierto: passage building plaza chamber openable opening
!closed cerrado: passage building plaza chamber openable opening
!broken roto: fragile chair lamp toy ladder music rope
wet mojado: clothes street road bridge barrier bed bag sack rope stick ball stone box yard
dry seco: shelter field meadow bread cake clothes stream lagoon path road barrier rope yard desert
dark oscuro: chamber shelter forest jungle tunnel street home grand path yard
!flooded inundado: way chamber shelter field park grounds meadow valley square
!blocked bloqueado: way
!frozen congelado: pond water juice meat
crowded abarrotado: public plaza beach street avenue bus train highway
muddy embarrado: path field grounds meadow road hill
slippery resbaladizo: way barrier mountain hill ladder stone
!rotten podrido: fruit vegetable meat cheese
!burnt quemado: cooked cake cookie potato
raw crudo: meat potato egg rice onion
salty salado: soup rice meat cheese salad cookie
bitter amargo: coffee tea juice orange salad
hard duro: bread bone bed chair cookie ball stick cheese
soft blando: bed chair bread ball cheese potato
+fresh fresco: fruit vegetable bread cheese salad milk water juice
ripe maduro: fruit
!delicious delicioso: food drink
loaded cargado: carrier boat
"""
