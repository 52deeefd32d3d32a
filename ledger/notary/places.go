package notary

// places is a set of offsets by partition. It says which records are in the log,
// exactly: a write that failed while a later one succeeded leaves a hole, so "up
// to the highest offset" would lose what is in the hole.
type places struct {
	pages map[place]*[pageBits / 64]uint64
	end   map[int32]int64 // one more than the highest of each partition
	n     int
}

const pageBits = 1 << 15

type place struct {
	partition int32
	page      int64
}

func newPlaces() *places {
	return &places{map[place]*[pageBits / 64]uint64{}, map[int32]int64{}, 0}
}

func split(partition int32, offset int64) (place, int64, uint64) {
	bit := offset % pageBits
	return place{partition, offset / pageBits}, bit / 64, 1 << (bit % 64)
}

// add reports whether the offset is new.
func (p *places) add(partition int32, offset int64) bool {
	at, word, bit := split(partition, offset)
	page := p.pages[at]
	if page == nil {
		page = new([pageBits / 64]uint64)
		p.pages[at] = page
	}
	if page[word]&bit != 0 {
		return false
	}
	page[word] |= bit
	p.n++
	p.end[partition] = max(p.end[partition], offset+1)
	return true
}

func (p *places) has(partition int32, offset int64) bool {
	if offset >= p.end[partition] {
		return false // the common case, after the first seconds
	}
	at, word, bit := split(partition, offset)
	page := p.pages[at]
	return page != nil && page[word]&bit != 0
}
