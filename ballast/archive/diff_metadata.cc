#include "ballast/archive/diff_metadata.h"

#include <algorithm>
#include <map>

#include "ballast/archive/digest.h"
#include "ballast/archive/guard.h"
#include "ballast/archive/origin.h"

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

// gpt.rs's config of a model that was converted to safetensors travels as metadata: kModelConfigKey of the models'
// layer.
void take_carried_config(Description& file) {
  const auto carried = std::ranges::find(file.metadata, "ballast.model", &MetaEntry::key);
  if (file.config || carried == file.metadata.end()) return;
  const auto* text = std::get_if<std::string>(&carried->value);
  if (text == nullptr) return;
  file.config = ModelConfig{"gptrs", *text};
  file.metadata.erase(carried);
}

bool same_value(const std::optional<MetaValue>& a, const std::optional<MetaValue>& b) {
  if (!a || !b) return !a && !b;
  return MetaEntry{"", *a} == MetaEntry{"", *b};
}

}  // namespace

Result<MetadataReport> diff_metadata(const Archive& a, const Archive& b, unsigned threads, const Progress& progress) {
  return guarded([&]() -> Result<MetadataReport> {
    BALLAST_TRY(Description one, original_description(a, threads, progress));
    BALLAST_TRY(Description other, original_description(b, threads, progress));
    take_carried_config(one);
    take_carried_config(other);
    std::map<std::string, MetadataChange> by_key;
    for (const MetaEntry& entry : one.metadata) by_key[entry.key].a = entry.value;
    for (const MetaEntry& entry : other.metadata) by_key[entry.key].b = entry.value;
    MetadataReport report;
    for (auto& [key, change] : by_key) {
      if (same_value(change.a, change.b)) continue;
      change.key = key;
      report.changes.push_back(std::move(change));
    }
    report.config_differs = one.config != other.config;
    return report;
  });
}

}  // namespace ballast
