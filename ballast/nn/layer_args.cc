#include "ballast/nn/layer_args.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "ballast/base/json.h"
#include "ballast/base/near_miss.h"

namespace ballast::nn {

namespace {

constexpr auto kDialect = JsonReader::Dialect::kPython;

std::optional<double> parse_real(std::string_view text) {
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A number, or a text that holds one.
std::optional<double> number_of(std::string_view raw) {
  JsonReader json(raw, "", 0, kDialect);
  const auto type = json.peek();
  if (!type) return std::nullopt;
  if (*type == JsonType::kString) {
    const auto text = json.read_string();
    return text ? parse_real(*text) : std::nullopt;
  }
  if (*type != JsonType::kNumber) return std::nullopt;
  const auto value = json.read_double();
  return value ? std::optional(*value) : std::nullopt;
}

// No layer is larger, and products of two such numbers fit 64 bits.
constexpr uint64_t kMostCount = (uint64_t{1} << 31) - 1;

std::optional<std::string> whole_text(std::string_view raw, uint64_t least, uint64_t most) {
  const auto within = [&](uint64_t value) {
    return value >= least && value <= most ? std::optional(fmt::format("{}", value)) : std::nullopt;
  };
  // Beyond 2^53 a double skips numbers: seeds may be that large.
  if (const auto exact = JsonReader(raw, "", 0, kDialect).read_u64(); exact) return within(*exact);
  const auto value = number_of(raw);
  if (!value || !(*value >= 0) || *value > 0x1p53 || std::floor(*value) != *value) return std::nullopt;
  return within(static_cast<uint64_t>(*value));
}

// The value as Python would write it again; nullopt where it is of another kind.
std::optional<std::string> normalised(std::string_view raw, ArgKind kind) {
  switch (kind) {
    case ArgKind::kCount: return whole_text(raw, 1, kMostCount);
    case ArgKind::kCountOrZero: return whole_text(raw, 0, kMostCount);
    case ArgKind::kOptionalCount:
      return raw == "null" ? std::optional<std::string>("null") : whole_text(raw, 0, kMostCount);
    case ArgKind::kSeed: return raw == "null" ? std::optional<std::string>("null") : whole_text(raw, 0, UINT64_MAX);
    case ArgKind::kReal: {
      const auto value = number_of(raw);
      if (!value) return std::nullopt;
      // netcl writes what the user gave: 1 stays a whole number.
      const bool whole = raw.find_first_not_of("0123456789-") == std::string_view::npos;
      return whole ? std::string(raw) : python_real(*value);
    }
    case ArgKind::kTruth:
      if (raw == "true" || raw == "1") return "true";
      return raw == "false" || raw == "0" ? std::optional<std::string>("false") : std::nullopt;
    case ArgKind::kText: return raw.starts_with('"') ? std::optional<std::string>(raw) : std::nullopt;
    case ArgKind::kLayers: return raw.starts_with('[') ? std::optional<std::string>(raw) : std::nullopt;
  }
  return std::nullopt;
}

std::string_view wanted(ArgKind kind) {
  switch (kind) {
    case ArgKind::kCount: return "a whole number above 0";
    case ArgKind::kCountOrZero: return "a whole number";
    case ArgKind::kOptionalCount:
    case ArgKind::kSeed: return "a whole number or null";
    case ArgKind::kReal: return "a number";
    case ArgKind::kTruth: return "true or false";
    case ArgKind::kText: return "a text";
    case ArgKind::kLayers: return "a list of layers";
  }
  return "something else";
}

std::string unknown_text(const std::string& name, std::span<const ArgSpec> specs) {
  std::vector<std::string_view> names;
  for (const ArgSpec& spec : specs) names.push_back(spec.name);
  const std::string_view near = nearest(name, names);
  if (!near.empty()) return fmt::format("there is no argument \"{}\"; did you mean \"{}\"?", name, near);
  if (names.empty()) return fmt::format("there is no argument \"{}\"; the layer takes none", name);
  return fmt::format("there is no argument \"{}\"; there are: {}", name, fmt::join(names, ", "));
}

using RawArgs = std::vector<std::pair<std::string, std::string>>;

Result<RawArgs> read_object(std::string_view text, const std::string& where) {
  RawArgs args;
  if (text.empty() || text == "null") return args;
  JsonReader json(text, where, 0, kDialect);
  BALLAST_CHECK(json.enter_object());
  std::string key;
  for (;;) {
    BALLAST_TRY(const bool more, json.next_key(key));
    if (!more) break;
    BALLAST_TRY(const std::string_view raw, json.read_raw());
    args.emplace_back(key, raw);
  }
  BALLAST_CHECK(json.finish());
  return args;
}

}  // namespace

Error LayerArgs::error(std::string_view what) const {
  return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: {}", where_, what));
}

Result<LayerArgs> LayerArgs::parse(std::string_view json, std::span<const ArgSpec> specs, bool ignore_unknown,
                                   const std::string& where) {
  LayerArgs args;
  args.where_ = where;
  auto given = read_object(json, where);
  if (!given) return make_error(ErrorCode::kInvalidArgument, given.error().message);
  std::vector<std::string> problems;
  for (const auto& [name, raw] : *given) {
    const bool known = std::ranges::any_of(specs, [&](const ArgSpec& spec) { return spec.name == name; });
    if (!known && !ignore_unknown) problems.push_back(unknown_text(name, specs));
  }
  for (const ArgSpec& spec : specs) {
    const auto found =
        std::find_if(given->rbegin(), given->rend(), [&](const auto& arg) { return arg.first == spec.name; });
    const std::string_view raw = found == given->rend() ? spec.otherwise : std::string_view(found->second);
    if (raw.empty()) {
      problems.push_back(fmt::format("argument \"{}\" is missing", spec.name));
      continue;
    }
    auto value = normalised(raw, spec.kind);
    if (!value) {
      problems.push_back(
          fmt::format("argument \"{}\" is {}, where {} is needed", spec.name, raw.substr(0, 60), wanted(spec.kind)));
      continue;
    }
    args.json_ += fmt::format("{}\"{}\": {}", args.json_.empty() ? "{" : ", ", spec.name, *value);
    args.values_.emplace(spec.name, *std::move(value));
  }
  if (!problems.empty()) return args.error(fmt::format("{}", fmt::join(problems, "; ")));
  args.json_ += args.json_.empty() ? "{}" : "}";
  return args;
}

const std::string& LayerArgs::raw(std::string_view name) const { return values_.find(name)->second; }
uint64_t LayerArgs::count(std::string_view name) const { return optional_count(name).value_or(0); }
double LayerArgs::real(std::string_view name) const { return number_of(raw(name)).value_or(0); }
bool LayerArgs::truth(std::string_view name) const { return raw(name) == "true"; }

std::optional<uint64_t> LayerArgs::optional_count(std::string_view name) const {
  const auto value = JsonReader(raw(name), "", 0, kDialect).read_u64();
  return value ? std::optional(*value) : std::nullopt;
}

std::string LayerArgs::text(std::string_view name) const {
  const auto value = JsonReader(raw(name), "", 0, kDialect).read_string();
  return value ? *value : std::string();
}

}  // namespace ballast::nn
