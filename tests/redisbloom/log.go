package redisbloom

import "math/big"

// logarithm returns the natural logarithm of x, rounded to the nearest float64. The header of a Bloom filter has a
// number that is computed from it, so that its last bit counts: math.Log may be wrong there, while the C library that
// RedisBloom uses is right nearly always.
func logarithm(x float64) float64 {
	const precision = 300
	number := func(x float64) *big.Float { return new(big.Float).SetPrec(precision).SetFloat64(x) }
	var fraction big.Float
	exponent := number(x).MantExp(&fraction) // x is fraction * 2^exponent, fraction from 0.5 to 1
	sum := series(&fraction)
	half := series(number(0.5)) // -ln 2
	sum.Sub(sum, half.Mul(half, number(float64(exponent))))
	result, _ := sum.Float64()
	return result
}

// series returns the natural logarithm of y, from 0.5 to 1: 2 (z + z^3/3 + z^5/5 + ...) with z = (y-1)/(y+1).
func series(y *big.Float) *big.Float {
	one := new(big.Float).SetPrec(y.Prec()).SetInt64(1)
	number := func() *big.Float { return new(big.Float).SetPrec(y.Prec()) }
	z := number().Quo(number().Sub(y, one), number().Add(y, one))
	square := number().Mul(z, z)
	sum, power := number(), number().Set(z)
	for i := int64(1); i < 200; i += 2 { // z is at most 1/3: the rest is below 2^-300
		sum.Add(sum, number().Quo(power, number().SetInt64(i)))
		power.Mul(power, square)
	}
	return sum.Add(sum, sum)
}
