"""The verbs: English forms, Spanish infinitive and stem change, who does it, to what, and flags.

"look+for" is a verb with its particle, "pensar+en" one with its preposition. Flags: passive (it sounds well in the
passive), for (done for someone), manner (slowly, quickly), skill (well), state (its past is imperfect in Spanish),
plain (no personal a: tiene un perro), bare (eats apples), where (a place may follow).
"""

VERBS = """
sleep slept | dormir o>ue | person creature | | skill
run ran run | correr | person walker | | where manner
walk | caminar | person walker | | where manner
swim swam swum | nadar | person dog bear duck turtle frog elephant horse | | skill manner
jump | saltar | person jumper | | where
sing sang sung | cantar | person bird | | where skill
dance | bailar | person | | where skill
work | trabajar | person | | where skill manner
cry | llorar | person | | where
smile | sonreír | person | |
rest | descansar | person creature | |
play | jugar u>ue | person walker | |
fly flew flown | volar o>ue | flyer duck | |
study | estudiar | person | | where

eat ate eaten | comer | person walker | food | manner bare
drink drank drunk | beber | person walker | drink | manner bare
see saw seen | ver | person creature | person creature vehicle place thing | passive
hear heard | oír | person creature | person creature vehicle music song |
watch | observar | person creature | person creature vehicle | passive
look+at | mirar | person walker | person creature place thing |
look+for | buscar | person walker | person creature thing food |
listen+to | escuchar | person | person music song story bird |
wait+for | esperar | person | person bus train ambulance |
think+about thought | pensar+en e>ie | person | person place readable food |
talk+about | hablar+de | person | person creature place readable vehicle |
dream+about | soñar+con o>ue | person | person creature land town grand food |
find found | encontrar o>ue | person walker | person creature thing food metal | passive
lose lost | perder e>ie | person | small clothes phone book letter |
open | abrir | person | openable opening store museum library | passive manner
close | cerrar e>ie | person | openable opening store museum library | passive manner
buy bought | comprar | person | thing private food drink metal | for bare
sell sold | vender | person | thing private food drink metal | passive bare
read read | leer | person | book letter story | manner
write wrote written | escribir | person | written | passive for bare manner
translate | traducir | person | readable | passive
paint | pintar | person | opening barrier furniture picture house boat cart | passive manner
draw drew drawn | dibujar | person | creature plant map building vehicle | plain passive
clean | limpiar | person | chamber home shelter opening furniture vehicle dish | passive manner
break broke broken | romper | person walker | fragile toy chair lamp guitar | passive
repair | reparar | person | vehicle furniture tool fence door | passive
build built | construir | person | building bridge tunnel barrier boat | passive
destroy | destruir | person beast elephant bear | building bridge barrier | passive
carry | llevar | person pack carrier | vessel load furniture piano |
move | mover o>ue | person strong | vessel load furniture piano |
push | empujar | person strong | cart car piano load table box |
lift | levantar | person strong | load box table chair piano |
bring brought | traer | person | small food drink dish clothes | for bare
send sent | enviar i>í | person | letter gift box map coin | passive
cook | cocinar | person | cooked vegetable | for bare manner
prepare | preparar | person | made cooked coffee tea | for bare
make made | hacer | person | cake sandwich bread cookie coffee tea dress toy | for bare
serve | servir e>i | person | food drink | passive bare
order | pedir e>i | person | made cooked drink | bare
choose chose chosen | elegir e>i | person | clothes furniture vehicle toy jewel fruit art | passive
want | querer e>ie | person | thing food drink private metal | state plain bare
have had | tener e>ie | person | thing private home food drink cat dog horse cow goat hen donkey | state plain bare
need | necesitar | person | tool vessel food drink private doctor nurse | state plain bare
love | adorar | person | person dog cat horse bird music | state
know knew known | conocer | person | person place | state
wear wore worn | llevar | person | clothes | state bare
use | usar | person | tool vessel dish bridge tunnel path |
help | ayudar | person | person creature |
visit | visitar | person | person public grand town | passive
hug hugged | abrazar | person | person dog cat monkey bear |
invite | invitar | person | person | passive
protect | proteger | person biter | person house village city dog lamb horse | passive
attack | atacar | biter bee | person creature | passive
bite bit bitten | morder o>ue | biter horse | person creature plaything shoe rope |
chase | perseguir e>i | person biter | creature person vehicle | passive
follow | seguir e>i | person walker | person creature vehicle way river | passive
catch caught | atrapar | person biter | rabbit mouse bird frog duck thief hen ball | passive
touch | tocar | person walker | thing opening food |
play | tocar | person | music | skill
throw threw thrown | lanzar | person | ball stone stick coin hat |
hide hid hidden | esconder | person walker | small metal letter food |
steal stole stolen | robar | person fox monkey squirrel mouse | jewel food art metal clothes | passive
cut cut | cortar | person | bread cheese cake rope plant fruit vegetable | manner
drive drove driven | conducir | person | motor | manner
smell | oler o>hue | person walker | food flower drink |
measure | medir e>i | person | furniture barrier rope clothes opening | passive
forget forgot forgotten | olvidar | person | small readable clothes |
remember | recordar o>ue | person | person readable place |
understand understood | entender e>ie | person | person readable map |
cross | cruzar | person walker wheels | way land pond | manner
enter | entrar+en | person walker wheels | building chamber shelter forest jungle tunnel grounds park town |
leave left | salir+de | person walker wheels | building chamber shelter forest jungle tunnel grounds park town |
reach | llegar+a | person walker wheels | place |
avoid | evitar | person walker wheels | way land town public plaza |
block | bloquear | person wheels elephant cow | way door |
climb | escalar | person climber | height | manner
jump+over | saltar | person jumper | barrier stream |
go+to went gone | ir+a | person | building land town |
return+to | volver+a o>ue | person walker | building town chamber land shelter |
live+in | vivir+en | person walker | home town cave | state
rest+in | descansar+en | person walker | bed home shelter land |
play+in | jugar+en u>ue | person walker | land chamber street |
sleep+in slept | dormir+en o>ue | person walker | bed home shelter chamber grounds |
"""
