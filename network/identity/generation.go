package identity

import (
	"regexp"
	"slices"

	"github.com/assay-bench/assay/verify"
)

// generation is a family of NVIDIA's chips: the first two digits of the PCI device
// ids that its chips have, and the names of its cards in the catalogue. Ids of single
// cards are not told apart here: one name has several, and the number of processors
// tells cards of one generation apart.
type generation struct {
	ids   []string
	names *regexp.Regexp
}

var generations = []generation{
	{[]string{"1d"}, regexp.MustCompile(`V100`)},
	{[]string{"1e", "1f", "21"}, regexp.MustCompile(`\bT4$`)},
	{[]string{"20", "22", "24", "25"}, regexp.MustCompile(`RTX 30|RTX A6000|\bA(100|30|10|10G|16|2|40)\b`)},
	{[]string{"23"}, regexp.MustCompile(`\b(H100|H200|H20|GH200)\b`)},
	{[]string{"26", "27", "28"}, regexp.MustCompile(`RTX 40|RTX 6000 Ada|\bL(4|40|40S)$`)},
	{[]string{"29", "2b", "2c", "2d", "2f", "31"}, regexp.MustCompile(`RTX 50|\bB200\b`)},
}

// generationOf gives the first two digits of the device ids that a card of this name
// may have; nil: the catalogue does not have it, or it is not NVIDIA's.
func generationOf(name string) []string {
	catalogue, err := verify.ShippedCatalog()
	if err != nil {
		return nil // a test reads the shipped file; without it every card is unknown
	}
	models := catalogue.Find(name)
	if len(models) == 0 || models[0].Vendor != "nvidia" {
		return nil
	}
	for _, g := range generations {
		if g.names.MatchString(models[0].Name) {
			return g.ids
		}
	}
	return nil
}

// knownGeneration says whether a device id is of a generation that is in the table:
// one that is not may be any card of a later one.
func knownGeneration(device string) bool {
	return slices.ContainsFunc(generations, func(g generation) bool { return slices.Contains(g.ids, device[:2]) })
}
