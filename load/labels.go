package load

// labels numbers what is under way from 1, such that a number that became free
// is the next to be given and as few as possible are in use. The zero labels has
// given none.
type labels struct {
	free []int // a heap: the least comes first
	last int   // the highest that was given
}

func (l *labels) take() int {
	n := len(l.free)
	if n == 0 {
		l.last++
		return l.last
	}
	least := l.free[0]
	l.free[0] = l.free[n-1]
	l.free = l.free[:n-1]
	for i := 0; ; {
		small := i
		for _, k := range [...]int{2*i + 1, 2*i + 2} {
			if k < len(l.free) && l.free[k] < l.free[small] {
				small = k
			}
		}
		if small == i {
			return least
		}
		l.free[i], l.free[small] = l.free[small], l.free[i]
		i = small
	}
}

func (l *labels) put(label int) {
	l.free = append(l.free, label)
	for i := len(l.free) - 1; i > 0 && l.free[i] < l.free[(i-1)/2]; i = (i - 1) / 2 {
		l.free[i], l.free[(i-1)/2] = l.free[(i-1)/2], l.free[i]
	}
}
