// One model in a module: whoever wants another takes another instance, whose memory goes when it is dropped.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ballast/archive/model_source.h"
#include "ballast/base/json_object.h"
#include "ballast/engine/engine.h"
#include "ballast/models/text_inspection.h"
#include "ballast/runtime/load_model.h"
#include "ballast/text/tokenizer.h"
#include "bindings/wasm/reply.h"

namespace ballast::wasm {

// What `start` began and `step` goes on with.
struct Writing {
  std::unique_ptr<Engine> engine;
  RequestId request = 0;
  std::optional<StreamDecoder> decoder{};
};

struct Session {
  std::map<std::string, std::unique_ptr<ByteVector>> files;  // that are being filled
  std::unique_ptr<LoadedModel> model;
  std::optional<Tokenizer> tokenizer;  // of a text model
  std::vector<TokenId> stop_tokens;
  std::unique_ptr<Writing> writing;
  std::optional<TextInspection> looking;  // at the text that `inspect` was given, layer by layer
  std::vector<float> input;               // of a model of layers
};

// Each takes what the caller asked for. What a session lacks for it is kInvalidArgument.
using Call = Status (*)(Session& session, const JsonObject& request, Answer& answer);
Status open_text_call(Session& session, const JsonObject& request, Answer& answer);
Status tokens_call(Session& session, const JsonObject& request, Answer& answer);
Status start_call(Session& session, const JsonObject& request, Answer& answer);
Status step_call(Session& session, const JsonObject& request, Answer& answer);
Status inspect_call(Session& session, const JsonObject& request, Answer& answer);
Status layer_call(Session& session, const JsonObject& request, Answer& answer);
Status open_layers_call(Session& session, const JsonObject& request, Answer& answer);
Status run_layers_call(Session& session, const JsonObject& request, Answer& answer);

// What the files that were filled hold: they are taken.
ModelSource take_files(Session& session);
Status open_model(Session& session, const ModelSource& source);

// The tokens of a prompt, at least one.
Result<std::vector<TokenId>> encode_prompt(const Session& session, const JsonObject& request);
// {"id", "text"}: what the token stands for by itself.
void write_token(JsonWriter& json, const Tokenizer& tokenizer, TokenId id);

}  // namespace ballast::wasm
