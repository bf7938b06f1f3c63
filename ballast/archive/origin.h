// `ballast.origin`: what a conversion could not express in the target format, carried along inside it.
//
// When A becomes B and B has no field for some of A (ids, config, order, spelling), B's free metadata gets one value
// that describes A. Converting B onwards starts from that description again, so A -> B -> A gives A back, through any
// number of formats. The value is bound to the digest of B's content and of B's own metadata: once either was changed
// by another program the value is stale and ignored.
#pragma once

#include <string>

#include "ballast/base/hash.h"
#include "ballast/base/result.h"
#include "ballast/formats/description.h"

namespace ballast {

// The value to store in B: describes `source`; `written` is what B's reader will see; `content` is B's archive digest.
// Tensors correspond by name; `written` may order them otherwise, and may hold another shape (rank 0 stored as [1]).
std::string encode_origin(const Description& source, const Description& written, const Digest& content);

// The description of A, or an error that says why the value is stale or unreadable.
Result<Description> decode_origin(const std::string& value, const Description& carrier, const Digest& content);

// Format and producer that an origin claims, without checking anything; empty when unreadable. For display.
std::string origin_summary(const std::string& value);

}  // namespace ballast
