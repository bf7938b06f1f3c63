#include "bindings/wasm/run/session.h"

#include "ballast/backends/cpu/cpu.h"

namespace ballast::wasm {

ModelSource take_files(Session& session) {
  NamedSources sources;
  for (auto& [name, bytes] : session.files) sources[name] = MemorySource::owning(std::move(*bytes), name);
  session.files.clear();
  return ModelSource(std::move(sources), "the files given");
}

Status open_model(Session& session, const ModelSource& source) {
  if (session.model) return make_error(ErrorCode::kInvalidArgument, "a model is open already");
  LoadOptions options;
  options.own_backend = &kCpuBackend;
  options.threads = 1;
  return assign(session.model, load_model(source, options));
}

}  // namespace ballast::wasm
