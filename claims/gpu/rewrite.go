package gpu

import (
	"fmt"
	"math/rand/v2"

	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/internal/opencl"
)

// Rewriting: a forest of 16,384 expression trees of 31 nodes, simplified by the
// rules of kernels_synthesis.cl. A sample sends a new forest, has it rewritten and
// takes it back.
const (
	forestTrees = 16_384
	treeNodes   = 31
	payload     = 1<<28 - 1
)

// Kinds of nodes, as in kernels_synthesis.cl.
const (
	nodeConstant = 1 + iota
	nodeName
	nodeAdd
	nodeSubtract
	nodeMultiply
	nodeSame
)

func node(kind, value uint32) uint32 { return kind<<28 | value&payload }

// newForest makes trees whose leaves are small constants and few variables, so
// that every rule has work. Node n of tree t is at n*forestTrees+t.
func newForest(r *rand.Rand) []uint32 {
	forest := make([]uint32, treeNodes*forestTrees)
	for i := range forest {
		dice := uint32(r.Uint64())
		switch {
		case i < treeNodes/2*forestTrees:
			forest[i] = node(nodeAdd+dice%3, 0)
		case dice%2 == 0:
			forest[i] = node(nodeConstant, dice>>8%4)
		default:
			forest[i] = node(nodeName, dice>>8%4)
		}
	}
	return forest
}

// term is a tree with pointers, for the reference.
type term struct {
	kind, value uint32
	left, right *term
	slot        int // where the kernel keeps it
}

// rewriteTree is the reference of the kernel's work on one tree: it works on a tree
// of pointers, and notes what the kernel must have in each place.
func rewriteTree(in []uint32) (out []uint32, steps uint32) {
	out = append(out, in...)
	var simplify func(n int) *term
	keep := func(t *term) *term {
		switch t.kind {
		case nodeConstant, nodeName:
			out[t.slot] = node(t.kind, t.value)
		default:
			out[t.slot] = node(t.kind, uint32(t.left.slot)<<8|uint32(t.right.slot))
		}
		return t
	}
	constant := func(t *term, v uint32) bool { return t.kind == nodeConstant && t.value == v }
	simplify = func(n int) *term {
		t := &term{kind: in[n] >> 28, value: in[n] & payload, slot: n}
		if t.kind < nodeAdd {
			return t
		}
		// The kernel goes through the nodes backwards; subtrees do not touch each
		// other, so any order of children gives the same.
		l, r := simplify(2*n+1), simplify(2*n+2)
		apply := func(a, b uint32) uint32 {
			switch t.kind {
			case nodeAdd:
				return (a + b) & payload
			case nodeSubtract:
				return (a - b) & payload
			}
			return a * b & payload
		}
		become := func(v uint32) *term {
			steps++
			return keep(&term{kind: nodeConstant, value: v, slot: n})
		}
		if l.kind == nodeConstant && r.kind == nodeConstant {
			return become(apply(l.value, r.value))
		}
		if t.kind == nodeSubtract && r.kind == nodeConstant {
			steps++
			r.value = -r.value & payload
			keep(r)
			t.kind = nodeAdd
		}
		if t.kind != nodeSubtract && r.kind == nodeConstant {
			steps++
			l, r = r, l
		}
		if t.kind == nodeSubtract && l.kind == nodeName && r.kind == nodeName && l.value == r.value {
			return become(0)
		}
		if t.kind != nodeSubtract && l.kind == nodeConstant && r.kind == t.kind && r.left.kind == nodeConstant {
			steps++
			l.value = apply(l.value, r.left.value)
			keep(l)
			r = r.right
		}
		switch {
		case t.kind == nodeAdd && constant(l, 0), t.kind == nodeMultiply && constant(l, 1):
			steps++
			out[n] = node(nodeSame, uint32(r.slot))
			return r
		case t.kind == nodeMultiply && constant(l, 0):
			return become(0)
		}
		t.left, t.right = l, r
		return keep(t)
	}
	simplify(0)
	return out, steps
}

func rewriteReference(forest []uint32) (out, steps []uint32) {
	out, steps = make([]uint32, len(forest)), make([]uint32, forestTrees)
	tree := make([]uint32, treeNodes)
	for t := range forestTrees {
		for n := range tree {
			tree[n] = forest[n*forestTrees+t]
		}
		var done []uint32
		done, steps[t] = rewriteTree(tree)
		for n := range done {
			out[n*forestTrees+t] = done[n]
		}
	}
	return out, steps
}

type rewrite struct {
	seed          uint64
	kernel        *opencl.Kernel
	forest, steps *opencl.Buffer
	out           []byte
	counts        []byte
}

func newRewrite(d *gpuDevice, seed uint64) (gpuWork, error) {
	w := &rewrite{seed: seed, out: filled(4 * treeNodes * forestTrees), counts: filled(4 * forestTrees)}
	var err error
	if w.kernel, err = d.program.Kernel("rewrite"); err != nil {
		return nil, err
	}
	mem, err := d.buffers(len(w.out), len(w.counts))
	if err != nil {
		return nil, fmt.Errorf("memory for the forest: %w", err)
	}
	w.forest, w.steps = mem[0], mem[1]
	return w, nil
}

func (w *rewrite) sample(number uint64) (claims.Measurement, error) {
	forest := newForest(gpuRandom(w.seed, number+1))
	want, steps := rewriteReference(forest)
	p := uint32Bytes(forest)
	if err := w.steps.Write(filled(len(w.counts))); err != nil {
		return claims.Measurement{}, fmt.Errorf("overwrite the counts: %w", err)
	}
	wall, device, err := timed(func() ([]*opencl.Event, error) {
		if err := w.forest.Write(p); err != nil {
			return nil, err
		}
		e, err := w.kernel.Launch([]int{groups(forestTrees, 64)}, []int{64}, w.forest, w.steps, uint32(forestTrees))
		if err != nil {
			return nil, err
		}
		return []*opencl.Event{e}, w.forest.Read(w.out)
	})
	if err != nil {
		return claims.Measurement{}, fmt.Errorf("rewrite %d trees: %w", forestTrees, err)
	}
	if err := w.steps.Read(w.counts); err != nil {
		return claims.Measurement{}, fmt.Errorf("read the counts: %w", err)
	}
	if err := differ("the rewritten trees", uint32s(w.out), want); err != nil {
		return claims.Measurement{}, err
	}
	got := uint32s(w.counts)
	if err := differ("the count of rewritings", got, steps); err != nil {
		return claims.Measurement{}, err
	}
	total := 0.0
	for _, n := range got {
		total += float64(n)
	}
	return claims.Measurement{Value: wall.Seconds(), Extra: map[string]float64{
		"device_s": device.Seconds(), "trees": forestTrees, "nodes": treeNodes * forestTrees, "rewritings": total,
	}}, nil
}
