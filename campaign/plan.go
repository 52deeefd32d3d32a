package campaign

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
)

// PlanFormat names the format of a plan (docs/formats/matrix.md).
const PlanFormat = "assay/plan/v1"

// Plan is what a campaign would do, and cost at most.
type Plan struct {
	Format string    `json:"format"`
	Name   string    `json:"name"`
	Cells  []Planned `json:"cells"`
	// Count is how many there are, and Runnable how many of them are not skipped.
	Count     int        `json:"count"`
	Runnable  int        `json:"runnable"`
	Providers []Rented   `json:"providers"`
	Budget    Budget     `json:"budget"`
	Cost      *TotalCost `json:"cost"` // null: not priced
	// Warnings are doubts, as sentences.
	Warnings []string `json:"warnings"`
}

// Planned is a cell of a plan.
type Planned struct {
	Cell
	// Skip says why nothing will be rented for it; null: it can run.
	Skip  *string `json:"skip"`
	Count int     `json:"gpu_count"`
	// Memory is what it needs of the GPUs' memory; null: that is not known.
	Memory *Need `json:"memory"`
	// LifeSeconds is the longest life of a machine for one try.
	LifeSeconds float64 `json:"life_seconds,omitempty"`
	// StageSeconds is the longest time of each stage.
	StageSeconds map[Stage]float64 `json:"stage_seconds,omitempty"`
	Cost         *Cost             `json:"cost"` // null: not priced
	// Unpriced says why it has no cost although prices were asked for.
	Unpriced string `json:"unpriced,omitempty"`
}

// Rented is a provider that a plan uses.
type Rented struct {
	Name  string `json:"name"`
	Cells int    `json:"cells"`
	// Guarantee says how much of the cost ends when a machine is left alone.
	Guarantee string `json:"guarantee"`
}

// TotalCost is that of all cells that can run.
type TotalCost struct {
	Bound  assay.Money `json:"bound"`
	Likely assay.Money `json:"likely"`
	// Largest is the largest reservation of one try.
	Largest  assay.Money `json:"largest_reservation"`
	Unpriced int         `json:"unpriced"` // cells that have no price
	History  History     `json:"history"`
}

// Options are what a plan is made with.
type Options struct {
	// Inventory has the prices; nil: none are asked for.
	Inventory Inventory
	// Guarantees are what machines of each provider can do by themselves, in words.
	Guarantees map[string]string
	// History is what became of earlier tries; zero: [DefaultHistory].
	History History
}

var errNoOffer = errors.New("no offer that may be rented was found")

// Make plans a matrix. An error is the context's: what is wrong with a cell or with a
// provider is in the plan.
func Make(ctx context.Context, m Matrix, o Options) (Plan, error) {
	if o.History.Tries == 0 {
		o.History = DefaultHistory()
	}
	p := Plan{Format: PlanFormat, Name: m.Name, Cells: []Planned{}, Budget: m.Budget, Warnings: []string{}}
	stock := shelf{from: o.Inventory, seen: map[Want]shelved{}}
	for _, one := range m.expand() {
		cell := m.plan(ctx, one, &stock, o.History)
		if err := ctx.Err(); err != nil {
			return Plan{}, fmt.Errorf("plan %s: %w", foreign.Line(m.Name, 60), err)
		}
		p.Cells = append(p.Cells, cell)
	}
	p.Count = len(p.Cells)
	for _, c := range p.Cells {
		if c.Skip == nil {
			p.Runnable++
		}
		p.rent(c, o.Guarantees)
	}
	if o.Inventory != nil {
		if err := p.total(m.Currency, o.History); err != nil {
			return Plan{}, err
		}
	}
	p.warn(o.Guarantees)
	return p, nil
}

// shelf asks for each kind of machine once: several cells want the same.
type shelf struct {
	from Inventory
	seen map[Want]shelved
}

type shelved struct {
	offers []Offer
	err    error
}

func (s *shelf) offers(ctx context.Context, w Want) ([]Offer, error) {
	got, ok := s.seen[w]
	if !ok {
		got.offers, got.err = s.from.Offers(ctx, w)
		s.seen[w] = got
	}
	return got.offers, got.err
}

// plan looks at one cell.
func (m Matrix) plan(ctx context.Context, one member, stock *shelf, h History) Planned {
	g := m.Groups[one.group]
	out := Planned{Cell: one.Cell, Count: g.Count}
	skip := func(format string, args ...any) Planned {
		why := fmt.Sprintf(format, args...)
		out.Skip = &why
		return out
	}
	engine, _ := EngineOf(one.Engine) // the reader looked
	if engine.repository && !strings.Contains(one.Model, "/") {
		return skip("%s gets models by a repository's name, as Qwen/Qwen2-7B-Instruct", engine.Name)
	}
	model, ok := modelOf(m.Models, one.Model)
	if !ok {
		return skip("the size of %s is not known: describe it under models", one.Model)
	}
	memory := g.Memory
	if memory == 0 {
		memory = GPUMemory(bare(one.GPU, g.Count))
	}
	var offers []Offer
	var err error
	if stock.from != nil {
		w := Want{Provider: one.Provider, GPU: bare(one.GPU, g.Count), Count: g.Count, DiskGB: m.Engine.DiskGB}
		if offers, err = stock.offers(ctx, w); err != nil {
			out.Unpriced = foreign.Line(err.Error(), 300)
		}
		offers = slices.Clone(offers)
	}
	memory = stated(memory, offers)
	if memory == 0 {
		return skip("the memory of a %s is not known: give vram_gib", one.GPU)
	}
	load := m.Engine.Serving
	need, err := NeedOf(model, engine, load, g.Count, memory)
	if err != nil {
		return skip("%v", err)
	}
	out.Memory = &need
	if why := need.refusal(model, load); why != "" {
		return skip("%s", why)
	}
	limits := m.limitsOf(engine, need.Weights)
	out.LifeSeconds, out.StageSeconds = limits.Life().Round(time.Second).Seconds(), limits.stages()
	if stock.from == nil || out.Unpriced != "" {
		return out
	}
	offers = slices.DeleteFunc(offers, func(o Offer) bool {
		n, err := NeedOf(model, engine, load, g.Count, cmpOr(o.Memory, memory))
		return err != nil || !n.Fits()
	})
	cost, err := m.costOf(offers, engine, need.Weights, h)
	if err != nil {
		out.Unpriced = err.Error()
		return out
	}
	out.Cost = cost
	if cellCap := m.Budget.Cell; cellCap != nil && cost.Reserve.Nano > cellCap.Nano {
		return skip("one try reserves %s, and the budget of a cell is %s", cost.Reserve, cellCap)
	}
	return out
}

// bare is a GPU's name without how many there are.
func bare(name string, count int) string {
	if count > 1 {
		return name[len(fmt.Sprintf("%dx ", count)):]
	}
	return name
}

func cmpOr(a, b int64) int64 {
	if a != 0 {
		return a
	}
	return b
}

// stated is the most memory of a GPU by which a cell may fit: offers know which of
// the cards with one name they have.
func stated(byName int64, offers []Offer) int64 {
	most := int64(0)
	for _, o := range offers {
		most = max(most, cmpOr(o.Memory, byName))
	}
	return cmpOr(most, byName)
}

// rent counts a cell to its provider.
func (p *Plan) rent(c Planned, guarantees map[string]string) {
	i := slices.IndexFunc(p.Providers, func(r Rented) bool { return r.Name == c.Provider })
	if i < 0 {
		r := Rented{Name: c.Provider, Guarantee: guarantees[c.Provider]}
		if r.Guarantee == "" {
			r.Guarantee = "not known: nothing ends a machine but this program"
		}
		i, p.Providers = len(p.Providers), append(p.Providers, r)
	}
	if c.Skip == nil {
		p.Providers[i].Cells++
	}
}

// total adds up the cells that can run.
func (p *Plan) total(currency string, h History) error {
	t := &TotalCost{History: h, Bound: assay.Money{Currency: currency}, Likely: assay.Money{Currency: currency}, Largest: assay.Money{Currency: currency}}
	for _, c := range p.Cells {
		switch {
		case c.Skip != nil:
			continue
		case c.Cost == nil:
			t.Unpriced++
			continue
		}
		var err error
		if t.Bound, err = t.Bound.Plus(c.Cost.Bound); err == nil {
			t.Likely, err = t.Likely.Plus(c.Cost.Likely)
		}
		if err != nil {
			return fmt.Errorf("add up the plan: %w", err)
		}
		t.Largest.Nano = max(t.Largest.Nano, c.Cost.Reserve.Nano)
	}
	p.Cost = t
	return nil
}

// warn says what a reader of the plan must not miss. Known are providers, by name.
func (p *Plan) warn(known map[string]string) {
	add := func(format string, args ...any) { p.Warnings = append(p.Warnings, fmt.Sprintf(format, args...)) }
	for _, r := range p.Providers {
		if _, there := known[r.Name]; !there && known != nil {
			add("provider %s is none of %s: without one of one's own by that name nothing is rented there", foreign.Line(r.Name, 60), strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
	}
	b := p.Budget
	if b.Campaign == nil {
		add("nothing can be rented: the matrix has no budget.campaign")
	}
	if p.Cost == nil {
		return
	}
	if n := p.Cost.Unpriced; n > 0 {
		add("%d cells have no price, and none of the sums has them in it", n)
	}
	if b.Campaign == nil {
		return
	}
	if p.Cost.Largest.Nano > b.Campaign.Nano {
		add("one try reserves up to %s, and the budget is %s: such a cell will not be tried", p.Cost.Largest, b.Campaign)
	}
	if n := p.above(b.Cell); n > 0 {
		add("%d cells would cost more than the %s of a cell if everything fails as late as it may: their last tries are not made then", n, b.Cell)
	}
	if p.Cost.Likely.Nano > b.Campaign.Nano {
		add("the likely cost is %s, and the budget %s: cells will be left", p.Cost.Likely, b.Campaign)
	} else if p.Cost.Bound.Nano > b.Campaign.Nano {
		add("if everything fails as late as it may, %s would be spent: the budget of %s ends the campaign before", p.Cost.Bound, b.Campaign)
	}
}

// above counts the cells whose bound is above the budget of one.
func (p *Plan) above(cell *assay.Money) (n int) {
	for _, c := range p.Cells {
		if cell != nil && c.Skip == nil && c.Cost != nil && c.Cost.Bound.Nano > cell.Nano {
			n++
		}
	}
	return n
}
