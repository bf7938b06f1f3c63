#include "ballast/formats/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "ballast/formats/drivers.h"

namespace ballast {

namespace {

constexpr std::array kFormats = {
    &kGptrsCheckpointDriver,
    &kGptrsTensorsDriver,
    &kBurnpackDriver,
    &kSafetensorsDriver,
    &kGgufDriver,
    &kNetclDriver,  // before npz: a netcl model is an NPZ with something more
    &kNetclLegacyDriver,
    &kNetclCheckpointDriver,
    &kTorchDriver,  // before npz, which takes any zip file that nobody else knows
    &kNpzDriver,
    &kNpyDriver,
};

bool ends_with_ignoring_case(std::string_view text, std::string_view ending) {
  if (text.size() < ending.size()) return false;
  return std::ranges::equal(text.substr(text.size() - ending.size()), ending, [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  });
}

std::string first_bytes_text(ByteSpan head) {
  constexpr size_t kShown = 8;
  return to_hex(head.first(std::min(head.size(), kShown)));
}

Error unknown_format(const OpenRequest& request, ByteSpan head) {
  if (head.empty()) {
    return make_error(
        ErrorCode::kUnknownFormat,
        fmt::format("{}: the file is empty; its writer was probably interrupted", request.source->name()));
  }
  std::string known;
  for (const FormatDriver* driver : kFormats) known += fmt::format("{}{}", known.empty() ? "" : ", ", driver->name);
  return make_error(ErrorCode::kUnknownFormat,
                    fmt::format("{}: no known format begins with bytes {} (size {}); known formats: {}",
                                request.source->name(), first_bytes_text(head), request.source->size(), known));
}

bool has_extension_of(std::string_view file_name, const FormatDriver& driver) {
  return std::ranges::any_of(driver.extensions,
                             [&](std::string_view extension) { return ends_with_ignoring_case(file_name, extension); });
}

}  // namespace

std::span<const FormatDriver* const> all_formats() { return kFormats; }

const FormatDriver* find_format(std::string_view name) {
  const auto found = std::ranges::find(kFormats, name, &FormatDriver::name);
  return found == kFormats.end() ? nullptr : *found;
}

const FormatDriver* format_for_extension(std::string_view file_name) {
  const auto found =
      std::ranges::find_if(kFormats, [&](const FormatDriver* driver) { return has_extension_of(file_name, *driver); });
  return found == kFormats.end() ? nullptr : *found;
}

std::vector<std::string_view> format_names_for_extension(std::string_view file_name) {
  std::vector<std::string_view> names;
  for (const FormatDriver* driver : kFormats) {
    if (has_extension_of(file_name, *driver)) names.push_back(driver->name);
  }
  return names;
}

Result<const FormatDriver*> choose_format(std::string_view name, std::string_view destination) {
  const FormatDriver* format = name.empty() ? format_for_extension(destination) : find_format(name);
  if (format != nullptr) return format;
  std::string known;
  for (const FormatDriver* driver : kFormats) {
    if (driver->plan_write != nullptr) known += fmt::format("{}{}", known.empty() ? "" : ", ", driver->name);
  }
  const std::string problem = !name.empty() ? fmt::format("there is no format \"{}\"", name)
                              : !destination.empty()
                                  ? fmt::format("{}: unknown extension; choose a format", destination)
                                  : "say which format to write";
  return make_error(ErrorCode::kInvalidArgument, fmt::format("{}; there are: {}", problem, known));
}

Result<const FormatDriver*> detect_format(const OpenRequest& request) {
  const uint64_t head_size = std::min<uint64_t>(request.source->size(), kSniffBytes);
  BALLAST_TRY(const BytesOrView head, BytesOrView::of(*request.source, 0, head_size));
  const SniffInput input{head.bytes(), request.source->size(), request.file_name, request.source.get()};
  const FormatDriver* likely = nullptr;
  for (const FormatDriver* driver : kFormats) {
    const SniffMatch match = driver->sniff(input);
    if (match == SniffMatch::kCertain) return driver;
    if (match == SniffMatch::kLikely && likely == nullptr) likely = driver;
  }
  if (likely != nullptr) return likely;
  return unknown_format(request, head.bytes());
}

Result<Archive> open_archive(const OpenRequest& request) {
  BALLAST_TRY(const FormatDriver* driver, detect_format(request));
  Findings findings = Findings::stop_at_first_error();
  return driver->open(request, findings);
}

}  // namespace ballast
