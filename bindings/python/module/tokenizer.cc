#include "bindings/python/module/tokenizer.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "bindings/python/module/errors.h"
#include "bindings/python/module/native_call.h"

namespace ballast::python {

namespace {

// What decode() gives may end in the middle of a character.
nb::object decoded_text(const std::string& bytes) {
  return nb::steal(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "replace"));
}

// The tokens of a text. Offsets are found when they are asked for: most never are.
struct PyEncoding {
  Encoding encoding;
  nb::object text;
  nb::object pair;  // None: there is one text
  PyTokenizer tokenizer;
  EncodeOptions options;
};

std::vector<uint32_t> special_mask_of(const PyEncoding& self) {
  return {self.encoding.special.begin(), self.encoding.special.end()};
}

std::vector<uint32_t> attention_mask_of(const PyEncoding& self) {
  const Encoding& encoding = self.encoding;
  std::vector<uint32_t> mask(encoding.ids.size(), 1);
  std::fill(mask.begin() + static_cast<ptrdiff_t>(encoding.padding_begin),
            mask.begin() + static_cast<ptrdiff_t>(encoding.padding_end), 0);
  return mask;
}

nb::list tokens_of(const PyEncoding& self) {
  nb::list list;
  for (const TokenId id : self.encoding.ids)
    list.append(decoded_text(std::string(self.tokenizer.get().bytes_of(id).value_or(""))));
  return list;
}

Result<Encoding> encode_texts(const Tokenizer& tokenizer, std::string_view text, std::optional<std::string_view> pair,
                              const EncodeOptions& options) {
  return pair ? tokenizer.encode_pair(text, *pair, options) : tokenizer.encode_full(text, options);
}

// In characters, as str counts. Of a pair each span is in its own text.
nb::list offsets_of(const PyEncoding& self) {
  const std::string_view text = utf8_of(self.text);
  const auto pair = self.pair.is_none() ? std::nullopt : std::optional(utf8_of(self.pair));
  EncodeOptions options = self.options;
  options.offsets = true;
  const Encoding traced = without_gil([&] { return encode_texts(self.tokenizer.get(), text, pair, options); });
  const auto first = to_character_spans(
      text, traced.offsets.empty() || pair ? std::span<const TextSpan>{} : std::span(traced.offsets));
  nb::list list;
  if (!pair) {
    for (const TextSpan& span : first) list.append(nb::make_tuple(span.begin, span.end));
    return list;
  }
  bool second = false, seen_first = false;
  for (size_t i = 0; i < traced.offsets.size(); ++i) {
    // Added tokens stand between the texts; they have no span.
    if (traced.special[i]) second = second || seen_first;
    else seen_first = true;
    const auto span = to_character_spans(second ? *pair : text, std::span(&traced.offsets[i], 1)).front();
    list.append(nb::make_tuple(span.begin, span.end));
  }
  return list;
}

EncodeOptions encode_options(bool add_special_tokens, bool special_tokens, bool fit_length) {
  EncodeOptions options;
  options.add_special_tokens = add_special_tokens;
  options.special_tokens = special_tokens;
  options.fit_length = fit_length;
  return options;
}

PyEncoding encode(const PyTokenizer& self, nb::object text, nb::object pair, bool add_special_tokens,
                  bool special_tokens, bool fit_length) {
  const EncodeOptions options = encode_options(add_special_tokens, special_tokens, fit_length);
  const std::string_view first = utf8_of(text);
  const auto second = pair.is_none() ? std::nullopt : std::optional(utf8_of(pair));
  Encoding encoding = without_gil([&] { return encode_texts(self.get(), first, second, options); });
  return {std::move(encoding), std::move(text), std::move(pair), self, options};
}

nb::list encode_ids(const PyTokenizer& self, nb::object text, bool add_special_tokens, bool special_tokens) {
  const EncodeOptions options = encode_options(add_special_tokens, special_tokens, false);
  const std::string_view view = utf8_of(text);
  return self.numbers().list_of(without_gil([&] { return self.get().encode(view, options); }));
}

nb::list encode_batch(const PyTokenizer& self, const nb::list& texts, bool add_special_tokens, bool special_tokens,
                      bool fit_length, unsigned threads) {
  const EncodeOptions options = encode_options(add_special_tokens, special_tokens, fit_length);
  // The texts stay alive in a tuple of our own: another thread may change that of the caller.
  const nb::tuple kept = nb::steal<nb::tuple>(PyList_AsTuple(texts.ptr()));
  std::vector<std::string_view> views;
  views.reserve(kept.size());
  for (const nb::handle text : kept) views.push_back(utf8_of(text));
  std::vector<Encoding> encodings = without_gil([&] { return self.get().encode_batch(views, options, threads); });
  nb::list list;
  for (size_t i = 0; i < encodings.size(); ++i)
    list.append(nb::cast(PyEncoding{std::move(encodings[i]), nb::object(kept[i]), nb::none(), self, options}));
  return list;
}

nb::object decode(const PyTokenizer& self, const std::vector<TokenId>& ids, bool skip_special_tokens) {
  return decoded_text(
      without_gil([&] { return self.get().decode(ids, {.skip_special_tokens = skip_special_tokens}); }));
}

nb::dict marks_of(const PyTokenizer& self) {
  const TokenMarks& marks = self.get().marks();
  nb::dict dict;
  const auto add = [&](const char* name, const std::optional<TokenId>& id) {
    if (id) dict[name] = *id;
  };
  add("bos", marks.begin);
  add("eos", marks.end);
  add("unk", marks.unknown);
  add("cls", marks.classification);
  add("sep", marks.separator);
  add("pad", marks.padding);
  add("mask", marks.mask);
  return dict;
}

nb::object token_of(const PyTokenizer& self, TokenId id) {
  const auto bytes = self.get().bytes_of(id);
  return bytes ? decoded_text(std::string(*bytes)) : nb::none();
}

}  // namespace

std::string_view utf8_of(nb::handle text) {
  if (!PyUnicode_Check(text.ptr())) throw nb::type_error("a text must be a str");
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (data == nullptr) throw nb::python_error();
  return {data, static_cast<size_t>(size)};
}

ClockTime clock_of(const std::vector<int>& now) {
  if (now.size() != 6) throw nb::value_error("now: (year, month, day, hour, minute, second)");
  return {now[0], now[1], now[2], now[3], now[4], now[5]};
}

Result<const ChatFormat*> PyTokenizer::chat() const {
  const std::lock_guard lock(shared_->mutex);
  if (!shared_->chat) {
    BALLAST_TRY(ChatFormat format, ChatFormat::open(ModelSource(path()), get()));
    shared_->chat.emplace(std::move(format));
  }
  return &*shared_->chat;
}

void bind_tokenizer(nb::module_& module) {
  nb::class_<PyEncoding>(module, "Encoding", "The tokens of a text, and what is known about them.")
      .def("__len__", [](const PyEncoding& self) { return self.encoding.ids.size(); })
      .def_prop_ro(
          "ids", [](const PyEncoding& self) { return self.tokenizer.numbers().list_of(self.encoding.ids); },
          "Token ids.")
      .def_prop_ro("tokens", &tokens_of, "The text of each token.")
      .def_prop_ro(
          "type_ids", [](const PyEncoding& self) { return self.encoding.type_ids; },
          "Which of two texts each token belongs to, as the model was taught.")
      .def_prop_ro("special_tokens_mask", &special_mask_of, "1 for tokens that were added around the text.")
      .def_prop_ro("attention_mask", &attention_mask_of, "0 for padding.")
      .def_prop_ro("offsets", &offsets_of,
                   "(begin, end) of each token in characters of the text; (0, 0) for tokens that were added.")
      .def("__repr__",
           [](const PyEncoding& self) { return nb::str("Encoding({} tokens)").format(self.encoding.ids.size()); });
  nb::class_<PyTokenizer>(module, "Tokenizer")
      .def(
          "__init__",
          [](PyTokenizer* self, const std::string& path, bool of_model) {
            Tokenizer tokenizer =
                without_gil([&] { return of_model ? find_tokenizer(ModelSource(path)) : load_tokenizer(path); });
            new (self) PyTokenizer(std::move(tokenizer), path);
          },
          nb::arg("path"), nb::arg("of_model"))
      .def("encode", &encode, nb::arg("text"), nb::arg("pair").none(), nb::arg("add_special_tokens"),
           nb::arg("special_tokens"), nb::arg("fit_length"))
      .def("encode_ids", &encode_ids, nb::arg("text"), nb::arg("add_special_tokens"), nb::arg("special_tokens"))
      .def("encode_batch", &encode_batch, nb::arg("texts"), nb::arg("add_special_tokens"), nb::arg("special_tokens"),
           nb::arg("fit_length"), nb::arg("threads"))
      .def("decode", &decode, nb::arg("ids"), nb::arg("skip_special_tokens"))
      .def("token_to_id", [](const PyTokenizer& self, const std::string& text) { return self.get().find(text); })
      .def("id_to_token", &token_of)
      .def("is_special", [](const PyTokenizer& self, TokenId id) { return self.get().is_special(id); })
      .def("marks", &marks_of)
      .def_prop_ro("notes", [](const PyTokenizer& self) { return std::vector<std::string>(self.get().notes()); })
      .def_prop_ro("size", [](const PyTokenizer& self) { return self.get().size(); })
      .def("chat_marks",
           [](const PyTokenizer& self) {
             const ChatFormat* format = unwrap(self.chat());
             return nb::make_tuple(format->bos_token(), format->eos_token(), format->template_text());
           })
      .def(
          "render_chat",
          [](const PyTokenizer& self, const std::string& context_json, const std::vector<int>& now,
             const std::optional<std::string>& text) {
            const ClockTime clock = clock_of(now);
            return without_gil([&]() -> Result<std::string> {
              if (text) {
                BALLAST_TRY(const ChatTemplate given, ChatTemplate::parse(*text));
                return given.render(context_json, {}, clock);
              }
              BALLAST_TRY(const ChatFormat* format, self.chat());
              return format->render(context_json, clock);
            });
          },
          nb::arg("context_json"), nb::arg("now"), nb::arg("template").none())
      .def(
          "encode_chat",
          [](const PyTokenizer& self, const std::string& context_json, const std::vector<int>& now,
             const std::optional<std::string>& text) {
            const ClockTime clock = clock_of(now);
            return without_gil([&]() -> Result<std::vector<TokenId>> {
              if (text) {
                BALLAST_TRY(const ChatFormat given,
                            ChatFormat::open(ModelSource(self.path()), self.get(), *text, "chat_template"));
                return given.encode(context_json, clock);
              }
              BALLAST_TRY(const ChatFormat* format, self.chat());
              return format->encode(context_json, clock);
            });
          },
          nb::arg("context_json"), nb::arg("now"), nb::arg("template").none());
}

}  // namespace ballast::python
