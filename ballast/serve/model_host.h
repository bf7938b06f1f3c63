// One model that is served: a thread that opens it on first use and prepares what is asked of it, beside the thread
// that computes texts. A long prompt that becomes tokens so holds up nobody's answer.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "ballast/runtime/embedder.h"
#include "ballast/runtime/text_model.h"
#include "ballast/serve/form_shelf.h"
#include "ballast/serve/model_facts.h"
#include "ballast/serve/refusal.h"
#include "ballast/serve/runner.h"
#include "ballast/serve/service.h"
#include "ballast/text/chat_format.h"

namespace ballast::serve {

// A text model or an embedding model; the other is absent.
struct OpenModel {
  std::optional<TextModel> text{};
  std::optional<ChatFormat> chat{};  // absent: the model has no chat template
  std::optional<Embedder> embedder{};
  const Tokenizer* tokenizer = nullptr;
  FormShelf forms{};
  uint64_t param_bytes = 0;
  std::string_view kind{};
  ModelFacts facts{};
  std::chrono::nanoseconds load{};
  uint64_t most_tokens = 0;          // of a text: those of the context, or as many as the KV cache has room for
  std::unique_ptr<Runner> runner{};  // of a text model; ends first
};

// Any thread may call it.
class ModelHost {
 public:
  // Is asked before the weights of so many bytes are read; tells why they must not be, or has the host claim them.
  using MakeRoom = std::function<std::optional<Refusal>(ModelHost&, uint64_t bytes)>;
  // One of the two is null.
  using Work = std::function<void(OpenModel* model, const Refusal* why_not)>;

  ModelHost(const ServedModel& model, const ServiceOptions& options, MakeRoom make_room);
  // Waits for the end of its thread: not to be called by what runs there.
  ~ModelHost();
  ModelHost(const ModelHost&) = delete;
  ModelHost& operator=(const ModelHost&) = delete;

  const std::string& name() const { return model_.name; }
  const std::shared_ptr<EngineInbox>& inbox() const { return inbox_; }

  // So many texts at a time at most, running and waiting. False: there is no room for so many more.
  bool take_places(uint64_t places);
  // One that is there however many are taken, for the server itself: clients cannot keep it from loading a model.
  void take_place_to_load();
  void give_places(uint64_t places);
  uint64_t most_places() const { return most_places_; }
  // The work is done in order, by the thread. Whoever posts it holds a place.
  void post(Work work);

  bool is_idle() const;
  bool is_open() const;
  uint64_t loaded_bytes() const;            // or those that it has claimed; 0: it is not open
  std::optional<ModelFacts> facts() const;  // absent: it has not been open yet
  // Before the model is open, so that two that are being opened do not both take the same room.
  void claim(uint64_t bytes);
  // When nobody holds a place any more, the model is closed and the thread ends.
  void retire();
  // Answers everything that runs or waits with an error, and retires.
  void close();
  bool has_ended() const;

 private:
  void run();
  void do_work(const Work& work);
  std::optional<Refusal> open();
  std::optional<Refusal> start(OpenModel& model);
  Status open_parts(OpenModel& model) const;
  void log(std::string_view what) const;

  const ServedModel model_;
  const ServiceOptions& options_;
  const MakeRoom make_room_;
  const uint64_t most_places_;
  const std::shared_ptr<EngineInbox> inbox_ = std::make_shared<EngineInbox>();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> work_;
  uint64_t places_ = 0;  // that are taken
  uint64_t loaded_bytes_ = 0;
  bool is_open_ = false, is_retired_ = false, is_closing_ = false, has_ended_ = false;
  std::optional<ModelFacts> facts_;

  std::unique_ptr<OpenModel> open_;  // of the thread
  std::thread thread_;
};

}  // namespace ballast::serve
