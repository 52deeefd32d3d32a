package summary

// topmost keeps the entries with the n highest keys of all that are added, in a
// heap whose first is the least of them.
type topmost struct{ keys, values []int64 }

func (t *topmost) add(n int, key, value int64) {
	n = min(n, streamsMost)
	switch {
	case n < 1:
	case len(t.keys) < n:
		t.keys, t.values = append(t.keys, key), append(t.values, value)
		for i := len(t.keys) - 1; i > 0 && t.keys[i] < t.keys[(i-1)/2]; i = (i - 1) / 2 {
			t.swap(i, (i-1)/2)
		}
	case key > t.keys[0]:
		t.keys[0], t.values[0] = key, value
		for i := 0; ; {
			least := i
			for _, k := range [...]int{2*i + 1, 2*i + 2} {
				if k < len(t.keys) && t.keys[k] < t.keys[least] {
					least = k
				}
			}
			if least == i {
				return
			}
			t.swap(i, least)
			i = least
		}
	}
}

func (t *topmost) swap(i, k int) {
	t.keys[i], t.keys[k] = t.keys[k], t.keys[i]
	t.values[i], t.values[k] = t.values[k], t.values[i]
}

// least is the lowest key that is kept; 0 without any.
func (t *topmost) least() int64 {
	if len(t.keys) == 0 {
		return 0
	}
	return t.keys[0]
}
