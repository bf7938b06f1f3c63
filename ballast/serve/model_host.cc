#include "ballast/serve/model_host.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/io/guard.h"

namespace ballast::serve {

namespace {

// A budget for the KV cache may have room for less than the context.
uint64_t longest_text(const Engine& engine, uint64_t context) {
  uint64_t fits = 0, too_long = std::min(context, UINT64_MAX - 1) + 1;
  while (too_long - fits > 1) {
    const uint64_t middle = fits + (too_long - fits) / 2;
    (engine.check({.prompt = {0}, .max_tokens = middle}) ? fits : too_long) = middle;
  }
  return fits;
}

}  // namespace

ModelHost::ModelHost(const ServedModel& model, const ServiceOptions& options, MakeRoom make_room)
    : model_(model),
      options_(options),
      make_room_(std::move(make_room)),
      most_places_(options.engine.most_sequences + options.most_waiting),
      thread_([this] { run(); }) {}

ModelHost::~ModelHost() {
  retire();
  thread_.join();
}

bool ModelHost::take_places(uint64_t places) {
  const std::lock_guard lock(mutex_);
  if (places > most_places_ - std::min(most_places_, places_)) return false;
  places_ += places;
  return true;
}

void ModelHost::take_place_to_load() {
  const std::lock_guard lock(mutex_);
  ++places_;
}

void ModelHost::give_places(uint64_t places) {
  const std::lock_guard lock(mutex_);
  places_ -= places;
  // Under the lock: once it is free, the host may be gone.
  changed_.notify_one();
}

void ModelHost::post(Work work) {
  const std::lock_guard lock(mutex_);
  work_.push_back(std::move(work));
  changed_.notify_one();
}

bool ModelHost::is_idle() const {
  const std::lock_guard lock(mutex_);
  return places_ == 0;
}

bool ModelHost::is_open() const {
  const std::lock_guard lock(mutex_);
  return is_open_;
}

uint64_t ModelHost::loaded_bytes() const {
  const std::lock_guard lock(mutex_);
  return loaded_bytes_;
}

std::optional<ModelFacts> ModelHost::facts() const {
  const std::lock_guard lock(mutex_);
  return facts_;
}

void ModelHost::claim(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  loaded_bytes_ = bytes;
}

void ModelHost::retire() {
  const std::lock_guard lock(mutex_);
  is_retired_ = true;
  changed_.notify_one();
}

void ModelHost::close() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  inbox_->stop();
  retire();
}

bool ModelHost::has_ended() const {
  const std::lock_guard lock(mutex_);
  return has_ended_;
}

void ModelHost::log(std::string_view what) const {
  if (options_.on_problem) options_.on_problem(fmt::format("{}: {}", model_.name, what));
}

void ModelHost::run() {
  for (;;) {
    Work work;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !work_.empty() || (is_retired_ && places_ == 0); });
      if (work_.empty()) break;
      work = std::move(work_.front());
      work_.pop_front();
    }
    do_work(work);
  }
  open_.reset();
  const std::lock_guard lock(mutex_);
  loaded_bytes_ = 0;
  is_open_ = false;
  has_ended_ = true;
}

// What fails for want of memory answers by itself when it is destroyed.
void ModelHost::do_work(const Work& work) {
  const auto status = guarded([&]() -> Status {
    const auto why_not = open();
    work(why_not ? nullptr : open_.get(), why_not ? &*why_not : nullptr);
    return {};
  });
  if (!status) log(status.error().message);
}

std::optional<Refusal> ModelHost::open() {
  {
    const std::lock_guard lock(mutex_);
    if (is_closing_) return Refusal{.status = 503, .message = "the server is stopping", .retry_after = 5};
  }
  if (open_) return std::nullopt;
  const auto begin = std::chrono::steady_clock::now();
  auto model = std::make_unique<OpenModel>();
  if (const Status status = open_parts(*model); !status) {
    log(status.error().message);
    return Refusal{.status = 500,
                   .message = fmt::format("the model \"{}\" could not be loaded{}", model_.name, kLogSaysWhy),
                   .code = "model_not_loaded",
                   .may_retry = false};
  }
  // Parameters are read when they are first touched, so there is still time.
  if (auto refusal = make_room_(*this, model->param_bytes)) return refusal;
  if (auto refusal = start(*model)) {
    model.reset();
    claim(0);
    return refusal;
  }
  model->load = std::chrono::steady_clock::now() - begin;
  open_ = std::move(model);
  const std::lock_guard lock(mutex_);
  is_open_ = true;
  loaded_bytes_ = open_->param_bytes;
  facts_ = open_->facts;
  return std::nullopt;
}

std::optional<Refusal> ModelHost::start(OpenModel& model) {
  if (!model.text) return std::nullopt;
  auto engine = model.text->start_engine(options_.engine);
  if (!engine) {
    log(engine.error().message);
    return Refusal{.status = 500,
                   .message = fmt::format("the model \"{}\" could not be started{}", model_.name, kLogSaysWhy),
                   .may_retry = false};
  }
  model.most_tokens = longest_text(**engine, model.text->context_length());
  model.runner = std::make_unique<Runner>(std::move(*engine), inbox_, [this](std::string_view what) { log(what); });
  return std::nullopt;
}

Status ModelHost::open_parts(OpenModel& model) const {
  const ModelSource source(model_.path);
  BALLAST_TRY(std::shared_ptr<LoadedModel> loaded, load_model(source, options_.load));
  model.param_bytes = loaded->report().param_bytes;
  model.kind = loaded->kind();
  BALLAST_TRY(const auto archive, source.archive());
  model.facts = facts_of(*archive, model.kind);
  model.facts.is_in_host_memory = loaded->workspace().queue().device().limits().is_host_memory;
  if (loaded->as_text_embedder() != nullptr) {
    BALLAST_TRY(Embedder embedder, Embedder::of(std::move(loaded), source));
    model.embedder.emplace(std::move(embedder));
    model.tokenizer = &model.embedder->tokenizer();
    model.facts.use = ModelUse::kEmbedding;
    model.facts.context_length = model.embedder->max_length();
    return {};
  }
  BALLAST_TRY(TextModel text, TextModel::of(std::move(loaded), source));
  model.text.emplace(std::move(text));
  BALLAST_TRY(model.tokenizer, model.text->tokenizer());
  auto chat = ChatFormat::open(source, *model.tokenizer);
  if (chat) model.chat.emplace(std::move(*chat));
  else if (chat.error().code != ErrorCode::kNotFound) return std::move(chat).error();
  model.facts.use = model.chat ? ModelUse::kChat : ModelUse::kCompletion;
  model.facts.context_length = model.text->context_length();
  return {};
}

}  // namespace ballast::serve
