package hammer

import "strings"

// words are what random prompts are made of: 256 short common words, which most
// tokenizers know as one token each. How many tokens they really are is learned
// from the engine.
var words = strings.Fields(`
able about above across act add after again age air all also always and answer any area arm art ask
away back ball bank base bear beat bed begin bell best big bird black blue board boat body book both
box boy bring brown build burn busy buy call came camp can car card care carry case cat catch cause
cell cent chair chief child city class clean clear climb clock close cloud coast cold come cook cool
copy corn cost count cover cross crowd cry cut dance dark day deal dear deep desk did dog door down
draw dream dress drink drive drop dry dust each ear early earth east easy eat edge egg eight end even
ever eye face fact fair fall far farm fast father fear feed feel few field fight fill find fine fire
first fish five floor flow fly follow food foot force form four free fresh friend from front fruit full
game garden gate gave girl give glad glass go gold gone good grand grass great green ground group grow
guess half hand hang happy hard has hat have head hear heart heat heavy held help here high hill hold
hole home hope horse hot hour house how huge human hunt ice idea inch iron island join jump just keep
key kind king knew lady lake land large last late laugh law lead learn leave left leg less let letter
level lie life lift light like line list
`)
