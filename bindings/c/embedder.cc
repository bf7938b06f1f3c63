#include "ballast/runtime/embedder.h"

#include "bindings/c/text_object.h"

namespace ballast::c {

template <>
struct HandleTraits<ballast_embedder> {
  using Object = Embedder;
  static constexpr HandleKind kKind = HandleKind::kEmbedder;
  static constexpr const char* kName = "embedder";
};

namespace {

Status check_room(uint64_t texts, uint64_t width, size_t room) {
  if (room / width >= texts) return {};
  return make_error(ErrorCode::kInvalidArgument, std::to_string(texts) + " vectors of " + std::to_string(width) +
                                                     " numbers each do not fit into room for " + std::to_string(room));
}

}  // namespace

}  // namespace ballast::c

using namespace ballast;
using namespace ballast::c;

extern "C" {

ballast_error* ballast_embedder_open(const char* path, const ballast_model_options* options, ballast_embedder** out) {
  return call([&]() -> Status {
    BALLAST_CHECK(need_out(out));
    BALLAST_CHECK(need(path, "the path"));
    BALLAST_TRY(const ballast_model_options given, given_options(options));
    EmbedderOptions open;
    BALLAST_TRY(open.load, load_options(given));
    open.tokenizer = text_or_empty(given.tokenizer);
    BALLAST_TRY(Embedder embedder, Embedder::open(std::string(path), open));
    log_load(embedder.model());
    log_notes(embedder.tokenizer());
    *out = hand_out<ballast_embedder>(std::make_shared<Embedder>(std::move(embedder)));
    return {};
  });
}
uint64_t ballast_embedder_width(const ballast_embedder* embedder) {
  return ask(embedder, uint64_t{0}, [](const Embedder& object) { return object.width(); });
}
uint64_t ballast_embedder_max_length(const ballast_embedder* embedder) {
  return ask(embedder, uint64_t{0}, [](const Embedder& object) { return object.max_length(); });
}
ballast_error* ballast_embedder_embed(const ballast_embedder* embedder, const char* const* texts, size_t count,
                                      float* out, size_t out_count, size_t* cut) {
  return call([&]() -> Status {
    BALLAST_TRY(const auto object, use(embedder));
    BALLAST_TRY(const std::vector<std::string> given, given_texts(texts, count, "a text"));
    if (count != 0) BALLAST_CHECK(need(out, "the pointer to the vectors"));
    BALLAST_CHECK(check_room(count, object->width(), out_count));
    BALLAST_TRY(const std::vector<Embedding> embeddings, object->embed(given));
    for (size_t i = 0; i < count; ++i) {
      out = std::copy(embeddings[i].vector.begin(), embeddings[i].vector.end(), out);
      if (cut != nullptr) cut[i] = embeddings[i].cut;
    }
    return {};
  });
}
void ballast_embedder_close(ballast_embedder* embedder) { drop(embedder); }

}  // extern "C"
