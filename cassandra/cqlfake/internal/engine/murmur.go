package engine

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// token is the place of a partition on the ring, as the Murmur3 partitioner
// counts: the first half of MurmurHash3 x64 128 with the bytes of the tail signed.
func token(key []byte) int64 {
	const c1, c2 = 0x87c37b91114253d5, 0x4cf5ad432745937f
	var h1, h2 uint64
	mix1 := func(k uint64) uint64 { return bits.RotateLeft64(k*c1, 31) * c2 }
	mix2 := func(k uint64) uint64 { return bits.RotateLeft64(k*c2, 33) * c1 }
	b := key
	for ; len(b) >= 16; b = b[16:] {
		h1 ^= mix1(binary.LittleEndian.Uint64(b))
		h1 = (bits.RotateLeft64(h1, 27)+h2)*5 + 0x52dce729
		h2 ^= mix2(binary.LittleEndian.Uint64(b[8:]))
		h2 = (bits.RotateLeft64(h2, 31)+h1)*5 + 0x38495ab5
	}
	var k1, k2 uint64
	for i, c := range b {
		v := uint64(int64(int8(c)))
		if i < 8 {
			k1 ^= v << (8 * i)
		} else {
			k2 ^= v << (8 * (i - 8))
		}
	}
	if len(b) > 8 {
		h2 ^= mix2(k2)
	}
	if len(b) > 0 {
		h1 ^= mix1(k1)
	}
	h1 ^= uint64(len(key))
	h2 ^= uint64(len(key))
	h1 += h2
	h2 += h1
	fmix := func(k uint64) uint64 {
		k = (k ^ k>>33) * 0xff51afd7ed558ccd
		k = (k ^ k>>33) * 0xc4ceb9fe1a85ec53
		return k ^ k>>33
	}
	h1, h2 = fmix(h1), fmix(h2)
	h1 += h2
	if int64(h1) == math.MinInt64 {
		return math.MaxInt64
	}
	return int64(h1)
}
