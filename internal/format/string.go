package format

import "fmt"

// StringOf returns the string that a header holds. The caller must not change it.
func StringOf(h *Header) ([]byte, error) {
	if h.TypeVersion > StringVersion {
		return nil, fmt.Errorf("%w: string has format %d, this program knows %d", ErrUnsupportedVersion, h.TypeVersion, StringVersion)
	}
	if len(h.Params) == 0 || h.Params[0] != EncodingBytes {
		return nil, fmt.Errorf("%w: string with encoding %x, this program knows %d", ErrUnsupportedVersion, h.Params[:min(1, len(h.Params))], EncodingBytes)
	}
	return h.Params[1:], nil
}

// StringHeader returns the header of a string.
func StringHeader(params []byte, expiry int64) *Header {
	return &Header{TypeName: StringType, Module: BuiltInModule, TypeVersion: StringVersion, Expiry: expiry, Params: params}
}

// KeepsString reports whether StringHeader makes the header from its parameters and expiry. A large string was perhaps
// not read whole.
func KeepsString(h *Header) bool {
	return h.TypeName == StringType && h.TypeVersion == StringVersion && h.ID == 0 && h.Family == 0 &&
		len(h.Layers) == 0 && len(h.Params) > 1
}
