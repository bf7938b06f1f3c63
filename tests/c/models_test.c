// models_test FOLDER: embeddings and images from C, with the models that make_models puts into the folder.
#include "check.h"

static const char* folder;

static void texts_become_vectors(void) {
  ballast_embedder* embedder = NULL;
  OK(ballast_embedder_open(path_in(folder, "bert"), NULL, &embedder));
  const uint64_t width = ballast_embedder_width(embedder);
  CHECK(width == 48 && ballast_embedder_max_length(embedder) > 4);
  const char* const texts[2] = {"ship boats", "stone"};
  float vectors[96], alone[48];
  size_t cut[2] = {9, 9};
  OK(ballast_embedder_embed(embedder, texts, 2, vectors, 96, cut));
  CHECK(cut[0] == 0 && cut[1] == 0);
  OK(ballast_embedder_embed(embedder, texts + 1, 1, alone, 48, NULL));
  CHECK(memcmp(vectors + 48, alone, sizeof alone) == 0);  // whatever the company
  CHECK(memcmp(vectors, alone, sizeof alone) != 0);
  FAILS(ballast_embedder_embed(embedder, texts, 2, vectors, 95, NULL), BALLAST_INVALID_ARGUMENT, "room for 95");
  FAILS(ballast_embedder_embed(embedder, NULL, 2, vectors, 96, NULL), BALLAST_INVALID_ARGUMENT, "NULL");
  ballast_embedder_close(embedder);
  ballast_text_model* model = NULL;
  FAILS(ballast_text_model_open(path_in(folder, "bert"), NULL, &model), BALLAST_INVALID_ARGUMENT, "text embedding");
}

static void pictures_have_classes(void) {
  ballast_model_options options = {.struct_size = sizeof options};
  options.image_size = 32;
  ballast_image_model* model = NULL;
  OK(ballast_image_model_open(path_in(folder, "mobilenet_v2.gptrs"), &options, &model));
  static uint8_t rgb[40 * 30 * 3];
  memset(rgb, 128, sizeof rgb);
  ballast_image_class classes[3];
  for (size_t i = 0; i < 3; ++i) classes[i].struct_size = sizeof classes[i];
  size_t count = 0;
  OK(ballast_image_model_classify(model, rgb, sizeof rgb, 40, 30, classes, 3, &count));
  CHECK(count == 3 && classes[0].logit >= classes[1].logit && classes[1].logit >= classes[2].logit);
  CHECK(classes[0].probability > 0 && classes[0].probability <= 1 && classes[0].index < 1000);
  FAILS(ballast_image_model_classify(model, rgb, sizeof rgb, 40, 31, classes, 3, &count), BALLAST_INVALID_ARGUMENT,
        "40 x 31");
  FAILS(ballast_image_model_classify(model, rgb, sizeof rgb, UINT64_MAX, UINT64_MAX, classes, 3, &count),
        BALLAST_INVALID_ARGUMENT, "pixels");
  ballast_image_model_close(model);
}

int main(int count, char** arguments) {
  CHECK(count == 2);
  folder = arguments[1];
  texts_become_vectors();
  pictures_have_classes();
  return end_of_test("models");
}
