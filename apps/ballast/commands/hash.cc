#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "apps/ballast/commands/commands.h"
#include "apps/ballast/commands/several_files.h"
#include "apps/ballast/flags/flags.h"
#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/table.h"
#include "apps/ballast/output/text.h"
#include "apps/ballast/terminal/console.h"
#include "apps/ballast/terminal/progress_bar.h"
#include "apps/ballast/terminal/streams.h"
#include "ballast/archive/digest.h"
#include "ballast/archive/manifest.h"
#include "ballast/archive/open.h"

namespace ballast::cli {

namespace {

struct HashFlags {
  std::vector<std::string> paths;
  bool write = false;
  bool check = false;
  bool json = false;
  DigestOptions options;
};

struct Hashed {
  std::string format;
  Manifest manifest;                     // of the archive as it is now
  std::vector<std::string> sha256;       // per tensor, when asked for
  std::vector<std::string> differences;  // from the manifest beside it, with --check
};

Result<Manifest> expected_manifest(const std::string& path) {
  auto manifest = read_manifest(path);
  if (!manifest && manifest.error().code == ErrorCode::kNotFound) manifest.error().message += "; --write makes one";
  return manifest;
}

Result<Hashed> hash(const std::string& path, const HashFlags& flags, Console& console) {
  if (reads_once(path) && (flags.write || flags.check)) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: --write and --check need a file, not a pipe", path));
  }
  BALLAST_TRY(const Archive archive, open_input(path));
  Manifest expected;
  if (flags.check) BALLAST_CHECK(assign(expected, expected_manifest(path)));  // before the long work
  Hashed hashed;
  {
    ProgressBar bar(console.errors());
    DigestOptions options = flags.options;
    options.progress = bar.callback();
    BALLAST_TRY(const auto digests, digest_tensors(archive, options));
    hashed.manifest = make_manifest(archive, digests);
    for (const TensorDigest& digest : digests) hashed.sha256.push_back(digest.sha256);
  }
  hashed.format = archive.description().format;
  if (flags.check) hashed.differences = compare_manifest(expected, hashed.manifest);
  if (flags.write) BALLAST_CHECK(write_manifest(path, hashed.manifest));
  return hashed;
}

// By name: like the digest itself, what is printed depends on neither order nor container.
std::vector<size_t> by_name(const Manifest& manifest) {
  std::vector<size_t> order(manifest.tensors.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](size_t i) -> const std::string& { return manifest.tensors[i].name; });
  return order;
}

std::string hash_json(const std::string& path, const HashFlags& flags, const Hashed& hashed) {
  JsonWriter json;
  json.begin_object();
  add_text(json, "path", path);
  add_text(json, "format", hashed.format);
  add_text(json, "digest", to_hex(hashed.manifest.archive));
  if (flags.write || flags.check) add_text(json, "manifest", manifest_path(path));
  if (flags.check) {
    add_boolean(json, "matches", hashed.differences.empty());
    json.key("differences").begin_array();
    for (const std::string& difference : hashed.differences) json.string(json_text(difference));
    json.end_array();
  }
  json.key("tensors").begin_array();
  for (const size_t i : by_name(hashed.manifest)) {
    json.begin_object();
    add_text(json, "name", hashed.manifest.tensors[i].name);
    add_text(json, "blake3", to_hex(hashed.manifest.tensors[i].blake3));
    if (flags.options.sha256) add_text(json, "sha256", hashed.sha256[i]);
    json.end_object();
  }
  json.end_array().end_object();
  return json.take();
}

void print_check(const std::string& path, const Hashed& hashed, Console& console) {
  std::string& out = console.out();
  const std::string manifest = printable(manifest_path(path));
  if (hashed.differences.empty()) {
    out += fmt::format("{}: {} {}\n", printable(path), painted(console.output(), Paint::kGreen, "matches"), manifest);
    return;
  }
  out +=
      fmt::format("{}: {} {}\n", printable(path), painted(console.output(), Paint::kRed, "does not match"), manifest);
  for (const std::string& difference : hashed.differences) out += fmt::format("  {}\n", printable(difference));
}

void print_digests(const std::string& path, const HashFlags& flags, const Hashed& hashed, Console& console) {
  std::string& out = console.out();
  for (const size_t i : by_name(hashed.manifest)) {
    const ManifestTensor& tensor = hashed.manifest.tensors[i];
    out += to_hex(tensor.blake3);
    out += "  ";
    if (flags.options.sha256) out += hashed.sha256[i] + "  ";
    out += printable(tensor.name);
    out += '\n';
  }
  append_painted(out, console.output(), Paint::kBold, to_hex(hashed.manifest.archive));
  out += fmt::format("  archive digest of {}\n", printable(path));
  if (flags.write) out += fmt::format("wrote {}\n", printable(manifest_path(path)));
}

Result<FileOutcome> hash_file(const std::string& path, const HashFlags& flags, Console& console) {
  BALLAST_TRY(const Hashed hashed, hash(path, flags, console));
  FileOutcome outcome{hashed.differences.empty() ? kExitYes : kExitNo};
  if (flags.json) outcome.json = hash_json(path, flags, hashed);
  else if (flags.check) print_check(path, hashed, console);
  else print_digests(path, flags, hashed, console);
  return outcome;
}

constexpr const char* kHashFooter =
    "Digests are BLAKE3 over type, shape and values. They do not depend on the format or the order of the tensors:\n"
    "equal archive digests mean equal tensors. --write stores them in <PATH>.ballast.json; --check compares with that\n"
    "file and exits with 1 if anything differs.\n"
    "\n"
    "Examples:\n"
    "  ballast hash model.safetensors\n"
    "  ballast hash model.safetensors --write\n"
    "  ballast hash model.safetensors --check\n"
    "  ballast hash model.npz --json | jq -r .digest\n"
    "  ballast hash model.npz model.bpk --json | jq -r '.files[].digest'\n";

}  // namespace

RunCommand add_hash(CLI::App& program, Console& console) {
  Command command(program, "hash", "Compute digests of tensors and whole files");
  auto flags = std::make_shared<HashFlags>();
  command.paths("PATH", flags->paths, "Files to digest").or_model();
  const Flag write = command.flag("--write", flags->write, "Store the digests in <PATH>.ballast.json");
  command.flag("--check", flags->check, "Compare with <PATH>.ballast.json").excludes(write);
  command.flag("--sha256", flags->options.sha256, "Also compute SHA-256 of each tensor's bytes");
  command.threads(flags->options.threads);
  command.json(flags->json);
  command.footer(kHashFooter);
  return [flags, &console] {
    return look_at_files(flags->paths, flags->json, console,
                         [&](const std::string& path) { return hash_file(path, *flags, console); });
  };
}

}  // namespace ballast::cli
