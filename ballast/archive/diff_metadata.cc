#include "ballast/archive/diff_metadata.h"

#include <algorithm>
#include <map>

#include "ballast/archive/digest.h"
#include "ballast/archive/origin.h"
#include "ballast/io/guard.h"

namespace ballast {

namespace {

// What another format had no field for counts, too: otherwise every conversion would look like a change.
Result<Description> original_description(const Archive& archive, unsigned threads, const Progress& progress) {
  const Description& carrier = archive.description();
  if (!carrier.origin) return carrier;
  DigestOptions options;
  options.threads = threads;
  options.progress = progress;
  BALLAST_TRY(const std::vector<TensorDigest> digests, digest_tensors(archive, options));
  auto original = decode_origin(*carrier.origin, carrier, archive_digest(archive.tensors(), digests));
  return original ? std::move(*original) : carrier;
}

void take_config(Description& description, std::string_view key) {
  const auto found = std::ranges::find(description.metadata, key, &MetaEntry::key);
  if (description.config || found == description.metadata.end()) return;
  const auto* text = std::get_if<std::string>(&found->value);
  if (text == nullptr) return;
  description.config = ModelConfig{"", *text};
  description.metadata.erase(found);
}

// Whose rules a config follows is the format's business.
bool same_config(const std::optional<ModelConfig>& a, const std::optional<ModelConfig>& b) {
  if (!a || !b) return !a && !b;
  return a->text == b->text;
}

bool same_value(const std::optional<MetaValue>& a, const std::optional<MetaValue>& b) {
  if (!a || !b) return !a && !b;
  return MetaEntry{"", *a} == MetaEntry{"", *b};
}

}  // namespace

Result<MetadataReport> diff_metadata(const Archive& a, const Archive& b, std::string_view config_key, unsigned threads,
                                     const Progress& progress) {
  return guarded([&]() -> Result<MetadataReport> {
    BALLAST_TRY(Description one, original_description(a, threads, progress));
    BALLAST_TRY(Description other, original_description(b, threads, progress));
    take_config(one, config_key);
    take_config(other, config_key);
    std::map<std::string, MetadataChange> by_key;
    for (const MetaEntry& entry : one.metadata) by_key[entry.key].a = entry.value;
    for (const MetaEntry& entry : other.metadata) by_key[entry.key].b = entry.value;
    MetadataReport report;
    for (auto& [key, change] : by_key) {
      if (same_value(change.a, change.b)) continue;
      change.key = key;
      report.changes.push_back(std::move(change));
    }
    report.config_differs = !same_config(one.config, other.config);
    return report;
  });
}

}  // namespace ballast
