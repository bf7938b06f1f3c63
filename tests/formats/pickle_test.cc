// Pickles are read as data: what they say is written down, and nothing is run.
#include "ballast/formats/torch/pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/formats/pickle_builder.h"
#include "tests/support/emulation.h"
#include "tests/support/memory_meter.h"
#include "tests/support/mutation.h"

namespace ballast {
namespace {

using namespace ballast::testing;
using ::testing::HasSubstr;

enum : uint16_t { kThing = 7, kMade = 8, kOrdered = 9 };

std::optional<PickleGlobal> find_test_global(std::string_view module, std::string_view name) {
  if (module == "lib" && name == "thing") return PickleGlobal{kThing, PickleRole::kName, false};
  if (module == "lib" && name == "make") return PickleGlobal{kMade, PickleRole::kCallable, true};
  if (module == "collections" && name == "OrderedDict") return PickleGlobal{kOrdered, PickleRole::kDict, true};
  return std::nullopt;
}

PickleOptions options() { return {.find_global = find_test_global, .where = "test", .advice = "Do otherwise"}; }

// A pickle and the bytes that it looks into.
struct Parsed {
  explicit Parsed(const std::string& text) : bytes(to_byte_vector(text)), pickle(read_pickle(bytes, options())) {}
  const PickleTree& tree() const { return pickle->tree; }
  PickleValue root() const { return pickle->tree.root(); }

  ByteVector bytes;
  Result<Pickle> pickle;
};

Parsed parse_value(const std::string& value) {
  Parsed parsed(py::pickle(value));
  EXPECT_TRUE(parsed.pickle) << parsed.pickle.error().message;
  return parsed;
}

PickleKind kind_of(const std::string& value) {
  const Parsed parsed = parse_value(value);
  return parsed.tree().kind(parsed.root());
}

std::string pickle_refusal(const std::string& opcodes) {
  const Parsed parsed(opcodes);
  EXPECT_FALSE(parsed.pickle);
  return parsed.pickle ? "" : parsed.pickle.error().message;
}

// ---------------------------------------------------------------- values

TEST(Pickle, ReadsNumbers) {
  const std::pair<std::string, int64_t> cases[] = {
      {"K\xff", 255},
      {std::string("M\x00\x01", 3), 256},
      {"J\xff\xff\xff\xff", -1},
      {"\x8a\x01\x80", -128},
      {std::string("\x8a\x00", 2), 0},
      {std::string("\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80", 10), INT64_MIN},
  };
  for (const auto& [opcodes, expected] : cases) {
    const Parsed parsed = parse_value(opcodes);
    EXPECT_EQ(parsed.tree().kind(parsed.root()), PickleKind::kInteger);
    EXPECT_EQ(parsed.tree().integer(parsed.root()), expected);
  }
  const Parsed real = parse_value("G\x3f\xb9\x99\x99\x99\x99\x99\x9a");
  EXPECT_EQ(real.tree().real(real.root()), 0.1);
}

TEST(Pickle, IntegersBeyond64BitsAreDigits) {
  const std::pair<std::string, std::string> cases[] = {
      {std::string("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00", 11), "9223372036854775808"},
      {std::string("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\x7f\xff", 11), "-9223372036854775809"},
      {std::string("\x8a\x0d\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xf0", 15),
       "-1267650600228229401496703205376"},
  };
  for (const auto& [opcodes, digits] : cases) {
    const Parsed parsed = parse_value(opcodes);
    EXPECT_EQ(parsed.tree().kind(parsed.root()), PickleKind::kBigInteger);
    EXPECT_EQ(parsed.tree().digits(parsed.root()), digits);
  }
}

TEST(Pickle, TextsMustBeUtf8AndBytesNeedNot) {
  const Parsed text =
      parse_value(py::text("gr\xc3\xb6\xc3\x9f"
                           "e"));
  EXPECT_EQ(text.tree().text(text.root()),
            "gr\xc3\xb6\xc3\x9f"
            "e");
  EXPECT_THAT(pickle_refusal(py::pickle(py::text("\xc3("))), HasSubstr("a text is not UTF-8"));
  const Parsed bytes = parse_value("C\x02\xc3(");
  EXPECT_EQ(bytes.tree().kind(bytes.root()), PickleKind::kBytes);
  EXPECT_EQ(bytes.tree().text(bytes.root()), "\xc3(");
}

TEST(Pickle, TextsOfPython2AreTextsWhereTheyCanBe) {
  EXPECT_EQ(kind_of("U\x02xy"), PickleKind::kText);
  EXPECT_EQ(kind_of("U\x02\xff\xfe"), PickleKind::kBytes);
}

TEST(Pickle, ContainersGrowInAnyNumberOfSteps) {
  // Two lists grow in turn: [1, [9, 9], 2, 3].
  const std::string inner = "]" + py::put(0) + py::integer(9) + "a";
  const Parsed parsed =
      parse_value("]" + py::integer(1) + "a" + inner + py::integer(9) + "aa(" + py::integer(2) + py::integer(3) + "e");
  const auto items = parsed.tree().items(parsed.root());
  ASSERT_EQ(items.size(), 4U);
  EXPECT_EQ(parsed.tree().integer(items[0]), 1);
  EXPECT_EQ(parsed.tree().items(items[1]).size(), 2U);
  EXPECT_EQ(parsed.tree().integer(items[3]), 3);
}

TEST(Pickle, ADictKeepsItsPairsInOrder) {
  const Parsed parsed = parse_value("}(" + py::text("b") + py::integer(1) + "u" + py::text("a") + py::integer(2) + "s");
  const auto items = parsed.tree().items(parsed.root());
  ASSERT_EQ(items.size(), 4U);
  EXPECT_EQ(parsed.tree().text(items[0]), "b");
  EXPECT_EQ(parsed.tree().text(items[2]), "a");
}

TEST(Pickle, AnOrderedDictIsADictHoweverItIsMade) {
  const std::string name = py::global("collections", "OrderedDict");
  const std::string pair = py::tuple({py::text("k"), py::integer(1)});
  for (const std::string& made :
       {name + ")R" + py::text("k") + py::integer(1) + "s", py::call(name, {py::list({pair})}),
        py::call(name, {py::list({py::list({py::text("k"), py::integer(1)})})}),
        py::call(name, {py::dict({py::text("k"), py::integer(1)})})}) {
    const Parsed parsed = parse_value(made);
    EXPECT_EQ(parsed.tree().kind(parsed.root()), PickleKind::kDict);
    ASSERT_EQ(parsed.tree().items(parsed.root()).size(), 2U);
    EXPECT_EQ(parsed.tree().text(parsed.tree().items(parsed.root())[0]), "k");
  }
}

TEST(Pickle, ACallIsWrittenDownWithItsArgumentsStateAndPlace) {
  const Parsed parsed = parse_value(py::call(py::global("lib", "make"), {py::integer(5)}) + py::text("state") + "b");
  const PickleTree& tree = parsed.tree();
  EXPECT_EQ(tree.kind(parsed.root()), PickleKind::kCall);
  EXPECT_EQ(tree.global(parsed.root()), kMade);
  ASSERT_EQ(tree.items(parsed.root()).size(), 1U);
  EXPECT_EQ(tree.integer(tree.items(parsed.root())[0]), 5);
  ASSERT_TRUE(tree.state(parsed.root()));
  EXPECT_EQ(tree.text(*tree.state(parsed.root())), "state");
  EXPECT_EQ(parsed.bytes[tree.offset(parsed.root())], std::byte{'R'});
}

TEST(Pickle, APersistentIdStaysWhatItIs) {
  const Parsed parsed = parse_value(py::text("here") + "Q");
  EXPECT_EQ(parsed.tree().kind(parsed.root()), PickleKind::kPersistent);
  EXPECT_EQ(parsed.tree().text(parsed.tree().persistent_id(parsed.root())), "here");
}

TEST(Pickle, TheMemoGivesTheSameValueBack) {
  const Parsed parsed = parse_value(py::list({py::text("x") + py::put(0), py::get(0)}));
  const auto items = parsed.tree().items(parsed.root());
  EXPECT_EQ(items[0], items[1]);
}

TEST(Pickle, EndsAtStopAndSaysWhere) {
  const Parsed parsed(py::pickle(py::kNone) + "rest");
  ASSERT_TRUE(parsed.pickle);
  EXPECT_EQ(parsed.pickle->length, 4U);
}

// ---------------------------------------------------------------- refused

TEST(Pickle, ANameThatIsNotOnTheListIsRefusedWithItsPlace) {
  EXPECT_EQ(pickle_refusal(py::pickle("(" + py::global("os", "system"))),
            "test: byte 3 of the pickle: it asks for os.system, which is not read; nothing was run. Do otherwise");
  EXPECT_THAT(pickle_refusal(py::pickle("\x8c\x02os\x8c\x05mkdir\x93")), HasSubstr("os.mkdir"));
  EXPECT_THAT(pickle_refusal(py::pickle(py::global("lib", "thing2"))), HasSubstr("lib.thing2"));
  EXPECT_THAT(pickle_refusal(py::pickle(py::global("lib.thing", ""))), HasSubstr("lib.thing."));
}

TEST(Pickle, NamesInErrorsArePrintable) {
  EXPECT_THAT(pickle_refusal(py::pickle(py::global("a\x1b[2J", "\xff"))), HasSubstr("it asks for a?[2J.?,"));
}

TEST(Pickle, ANameOfTheListThatIsNoFunctionCannotBeCalled) {
  EXPECT_THAT(pickle_refusal(py::pickle(py::call(py::global("lib", "thing"), {}))), HasSubstr("nothing was run"));
}

TEST(Pickle, OpcodesThatMakeObjectsAreRefusedByName) {
  for (const auto& [opcode, name] :
       std::initializer_list<std::pair<std::string, std::string>>{{"(ios\nmkdir\n", "INST"},
                                                                  {"o", "OBJ"},
                                                                  {"\x81", "NEWOBJ"},
                                                                  {"\x92", "NEWOBJ_EX"},
                                                                  {"\x82\x01", "EXT1"},
                                                                  {"\x97", "NEXT_BUFFER"},
                                                                  {"Pid\n", "PERSID"},
                                                                  {"I1\n", "INT"},
                                                                  {"0", "POP"}}) {
    EXPECT_THAT(pickle_refusal("\x80\x02" + opcode), HasSubstr("opcode " + name + " is not read")) << name;
  }
  EXPECT_THAT(pickle_refusal("\x80\x02\xff"), HasSubstr("there is no opcode 0xff"));
}

TEST(Pickle, TheStackCannotBeUndermined) {
  EXPECT_THAT(pickle_refusal("\x80\x02\x86."), HasSubstr("it takes 2 values, and there are 0"));
  EXPECT_THAT(pickle_refusal("\x80\x02N(\x85."), HasSubstr("it takes 1 values, and there are 0"));
  EXPECT_THAT(pickle_refusal("\x80\x02t."), HasSubstr("there is none"));
  EXPECT_THAT(pickle_refusal("\x80\x02"
                             "NN."),
              HasSubstr("STOP with 2 values"));
  EXPECT_THAT(pickle_refusal("\x80\x02N(."), HasSubstr("1 open marks"));
  EXPECT_THAT(pickle_refusal("\x80\x02."), HasSubstr("STOP with 0 values"));
  EXPECT_THAT(pickle_refusal("\x80\x02q"), HasSubstr("past the end"));
  EXPECT_THAT(pickle_refusal("\x80\x02N"), HasSubstr("without STOP"));
}

TEST(Pickle, ValuesAreAddedOnlyToWhatCanHoldThem) {
  EXPECT_THAT(pickle_refusal(py::pickle("}Na")), HasSubstr("cannot hold them"));
  EXPECT_THAT(pickle_refusal(py::pickle(")Na")), HasSubstr("cannot hold them"));
  EXPECT_THAT(pickle_refusal(py::pickle("]NNs")), HasSubstr("cannot hold them"));
  EXPECT_THAT(pickle_refusal(py::pickle("}(Nu")), HasSubstr("a key without a value"));
  EXPECT_THAT(pickle_refusal(py::pickle("}]Ns")), HasSubstr("the key of a dict"));
  EXPECT_THAT(pickle_refusal(py::pickle("]}b")), HasSubstr("BUILD"));
}

TEST(Pickle, LengthsAreComparedWithWhatIsThere) {
  for (const std::string& opcodes :
       {std::string("X\xff\xff\xff\xff"), std::string("\x8d\xff\xff\xff\xff\xff\xff\xff\x7f"),
        std::string("\x95\xff\xff\xff\xff\xff\xff\xff\xff"), std::string("\x8a\x09zz"), std::string("Jzz")}) {
    const MemoryMeter meter;
    EXPECT_THAT(pickle_refusal("\x80\x04" + opcodes), HasSubstr("past the end of the pickle"));
    EXPECT_LT(meter.peak(), 1U << 20);
  }
}

TEST(Pickle, OneTextHasALimit) {
  EXPECT_THAT(pickle_refusal(py::pickle(py::text(std::string((1 << 20) + 1, 'x')))),
              HasSubstr("1048576 bytes in one text"));
}

TEST(Pickle, MemoIndexesCannotSizeMemory) {
  EXPECT_THAT(pickle_refusal(py::pickle("N" + py::put(0xFFFFFFFF))), HasSubstr("stores value 4294967295"));
  EXPECT_THAT(pickle_refusal(py::pickle(py::get(0xFFFFFFFF))), HasSubstr("never stored"));
}

TEST(Pickle, ValuesMarksAndStoresHaveLimits) {
  const MemoryMeter meter;
  EXPECT_THAT(pickle_refusal("\x80\x02" + std::string(300'000, ']')), HasSubstr("131072 values"));
  EXPECT_THAT(pickle_refusal("\x80\x02" + std::string(300'000, 'N')), HasSubstr("131072 open values"));
  EXPECT_THAT(pickle_refusal("\x80\x02" + std::string(300'000, '(')), HasSubstr("256 open marks"));
  EXPECT_THAT(pickle_refusal("\x80\x04N" + std::string(300'000, '\x94')), HasSubstr("131072 stored values"));
  std::string places = "\x80\x02]";
  for (int i = 0; i < 300'000; ++i) places += "Na";
  EXPECT_THAT(pickle_refusal(places), HasSubstr("262144 places"));
  EXPECT_LT(meter.peak(), 12U << 20);
}

TEST(Pickle, ProtocolsUpTo5AtTheFrontOnly) {
  EXPECT_THAT(pickle_refusal("\x80\x09N."), HasSubstr("PROTO 9"));
  EXPECT_THAT(pickle_refusal("\x80\x02\x80\x02N."), HasSubstr("PROTO 2"));
}

// ---------------------------------------------------------------- grammar

// Random programs of mostly sensible opcodes: they go far deeper than damaged files.
class ProgramWriter {
 public:
  explicit ProgramWriter(uint64_t seed) : random_(seed) {}

  std::string write() {
    std::string program = "\x80\x04";
    for (uint64_t i = 0, count = 5 + below(200); i < count; ++i) program += piece();
    // What is left becomes one value.
    if (below(4) != 0) program = "\x80\x04(" + program.substr(2) + "t";
    return program + ".";
  }

 private:
  uint64_t below(uint64_t limit) { return random_() % limit; }

  std::string piece() {
    static const std::string kPieces[] = {
        py::kNone,
        py::kTrue,
        py::text("ab"),
        py::integer(-3),
        "]",
        "}",
        ")",
        "(",
        "t",
        "\x85",
        "\x86",
        "\x87",
        "a",
        "e",
        "s",
        "u",
        "\x8f",
        "\x90",
        "\x91",
        "\x94",
        "R",
        "b",
        "Q",
        "\x93",
        "K\x07",
        "U\x02xy",
        "C\x01z",
        py::global("lib", "thing"),
        py::global("lib", "make"),
        py::global("collections", "OrderedDict"),
        "]N\x61",
        "}(NNu",
        "(NNt",
        "]}a",
        "](]]e",
        py::call(py::global("lib", "make"), {}),
        py::call(py::global("collections", "OrderedDict"), {}),
    };
    if (below(6) == 0)
      return (below(2) == 0 ? py::put(static_cast<uint32_t>(below(40))) : py::get(static_cast<uint32_t>(below(40))));
    std::string chosen = kPieces[below(std::size(kPieces))];
    if (below(60) == 0) chosen[below(chosen.size())] = static_cast<char>(random_());
    return chosen;
  }

  std::mt19937_64 random_;
};

// Every value of a tree says only what is there.
void expect_sound_tree(const PickleTree& tree) {
  ASSERT_LT(tree.root(), tree.size());
  for (PickleValue value = 0; value < tree.size(); ++value) {
    switch (tree.kind(value)) {
      case PickleKind::kList:
      case PickleKind::kTuple:
      case PickleKind::kSet:
      case PickleKind::kCall:
        for (const PickleValue item : tree.items(value)) ASSERT_LT(item, tree.size());
        break;
      case PickleKind::kDict:
        ASSERT_EQ(tree.items(value).size() % 2, 0U);
        for (const PickleValue item : tree.items(value)) ASSERT_LT(item, tree.size());
        break;
      case PickleKind::kText:
      case PickleKind::kBytes: ASSERT_LE(tree.text(value).size(), 100'000U); break;
      case PickleKind::kBigInteger: ASSERT_FALSE(tree.digits(value).empty()); break;
      case PickleKind::kPersistent: ASSERT_LT(tree.persistent_id(value), tree.size()); break;
      default: break;
    }
    ASSERT_LT(tree.state(value).value_or(0), tree.size());
  }
}

// How many of them are pickles.
int run_programs(uint64_t first_seed, int count) {
  int read = 0;
  for (int i = 0; i < count; i += static_cast<int>(one_in())) {
    const uint64_t seed = first_seed + static_cast<uint64_t>(i);
    SCOPED_TRACE(seed);
    // A copy of exactly its size, so that a sanitizer sees every read behind the end.
    const ByteVector program = to_byte_vector(ProgramWriter(seed).write());
    const MemoryMeter meter;
    const auto pickle = read_pickle(program, options());
    EXPECT_LE(meter.peak(), 64 * program.size() + (1 << 16));
    if (pickle) expect_sound_tree(pickle->tree);
    read += pickle ? 1 : 0;
  }
  return read;
}

TEST(PickleGrammar, RandomProgramsGiveAnErrorOrASoundTree) {
  const int read = run_programs(1, 20'000);
  if (one_in() == 1) {
    EXPECT_GT(read, 0);
  }
}
// Of these, none may be a pickle.
TEST(PickleGrammar, FreshRandomProgramsToo) { run_programs(fresh_seed(), 5'000); }

}  // namespace
}  // namespace ballast
