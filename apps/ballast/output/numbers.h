// Numbers of a payload as decimal text, the way NumPy writes them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "ballast/base/bytes.h"
#include "ballast/base/dtype.h"

namespace ballast::cli {

struct Number {
  enum class Kind : unsigned char { kReal, kInteger, kBool, kInfinity, kNan };
  Kind kind = Kind::kReal;
  bool negative = false;
  // kReal: as few digits as tell the value from every other of its type, d.ddd * 10^exponent, no zeros at the end.
  // kInteger and kBool: the whole number.
  std::string digits;
  int exponent = 0;

  bool is_zero() const { return digits == "0"; }
};

// Calls visit with `count` numbers of an arithmetic type; complex elements are two.
void for_each_number(DType dtype, ByteSpan in, size_t count, const std::function<void(const Number&)>& visit);

// "0.1", "1e-07", "-3", "true", "nan", "-inf": the value alone, for programs.
std::string plain_text(const Number& number);

// A common form for numbers that stand together: the same notation, points below each other.
class NumberFormat {
 public:
  explicit NumberFormat(size_t precision) : precision_(precision) {}

  // Every number that is going to be written.
  void observe(const Number& number);
  // Once all were observed.
  void settle();

  std::string text(const Number& number) const;
  // With a sign in front whatever it is: the imaginary part.
  std::string signed_text(const Number& number) const;

 private:
  struct Parts {
    std::string whole;
    std::string fraction;
    std::string exponent;
  };
  Parts parts(const Number& number) const;
  Parts fixed_parts(const Number& number) const;
  Parts exponential_parts(const Number& number) const;
  std::string special_text(const Number& number) const;

  size_t precision_;
  bool exponential_ = false;
  bool any_real_ = false;
  // Of what was observed, in either notation, as it is not known yet which it will be.
  struct Extent {
    size_t whole = 0;
    size_t fraction = 0;
    size_t exponent = 0;
  };
  Extent fixed_;
  Extent scientific_;
  size_t widest_special_ = 0;
  bool any_nonzero_ = false;
  double largest_ = 0;
  double smallest_ = 0;
  size_t width_ = 0;
};

}  // namespace ballast::cli
