"""Messy tables: reading, inference, encoding and streams, compared with a simple reference."""

import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxplus.tables import (
    Categorical,
    Category,
    Number,
    RawTable,
    TableEncoder,
    UnknownValues,
    csv_files,
    load_dataset,
    load_training,
    read_table,
    stream_dataset,
)
from messy import (
    DIALECTS,
    DROPPED,
    GRADES,
    HEADER,
    SPANS,
    expected,
    is_missing,
    messy_rows,
    write_messy,
    written,
)
from strategies import quick
from table_helpers import decided, encoder_of, opened, refused, restored


@pytest.fixture(scope="module")
def rows():
    return messy_rows()


@pytest.fixture
def path(write, rows):
    return write(written(rows))


@pytest.fixture
def encoder(path):
    return encoder_of(read_table(path))


# -- features and decisions -----------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("block", [1 << 20, 3000])
def test_features_equal_the_reference_for_any_dialect(tmp_path, rows, monkeypatch, dialect, block):
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", block)
    found = opened(str(write_messy(tmp_path, rows, dialect)))
    names, X = expected(rows)
    assert found.encoder.feature_names == names
    assert found.X.tolist() == X
    assert found.y.tolist() == [row["class"] for row in rows]
    used = [column.name for column in found.encoder.columns_]
    assert found.missing.tolist() == [[is_missing(row[name]) for name in used] for row in rows]
    assert any("Latin-1" in line for line in found.decisions) == (
        DIALECTS[dialect].get("encoding") in ("latin-1", "cp1252")
    )


def test_every_decision_is_reported_with_its_parameter(path):
    _, decisions = decided(read_table(path))
    about = {name: [line for line in decisions if f"{name!r}" in line] for name in HEADER}
    for name in DROPPED:
        (line,) = about[name]
        assert line.startswith(f"dropped {name!r}: ")
        assert line.endswith(f"(`keep=['{name}']` to use it)")
    for name, words in {
        "patient": "150 different values in 150 rows",
        "age": "'age is missing'",
        "colour": "encoded as 'colour is missing'",
        "grade": "low < medium < high",
        "span": "<5 < 5-9 < 10-19 < 20+",
        "town": "`categorical=['town']`",
    }.items():
        assert words in about[name][0]
    assert all("\n" not in line for line in decisions)


def test_every_decision_can_be_overridden(path):
    table = read_table(path)
    features = encoder_of(
        table, keep=DROPPED, categorical=["grade", "town"], drop=["sex"], numeric=["span"]
    ).columns_
    columns = {column.name: column for column in features}
    assert "sex" not in columns
    assert isinstance(columns["nr"], Number)
    assert isinstance(columns["span"], Number)
    assert isinstance(columns["grade"], Category)
    assert len(columns["town"].values) == len(set(table.columns["town"].values))
    assert {"patient", "visit", "same", "note"} <= set(columns)
    spans = {"<5": 5.0, "5-9": 7.0, "10-19": 14.5, "20+": 20.0}
    found = TableEncoder(numeric=["span"]).fit(table)
    X = found.encode(table).X[:, found.feature_names.index("span")]
    assert X.tolist() == [spans[text] for text in table.columns["span"]]


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"drop": ["age"], "keep": ["age"]}, ["'age'", "`drop`", "`keep`"]),
        ({"categorical": ["age"], "numeric": ["age"]}, ["'age'", "`categorical`", "`numeric`"]),
        ({"drop": ["class"]}, ["'class'", "target", "`drop`"]),
        ({"numeric": ["size"]}, ["'size'", "`numeric`", "'age'"]),
        ({"numeric": ["sex"]}, ["'sex'", "line 2", "numbers"]),
        ({"numeric": "sex"}, ["numeric must be a list", "['sex']"]),
        ({"task": "guess"}, ["`task`", "guess", "regression"]),
        ({"missing": "drop"}, ["missing must be", "drop", "impute"]),
        ({"task": "regression"}, ["'class'", "line 2", "numbers", "`task='classification'`"]),
        ({"drop": [name for name in HEADER[:-1] if name not in DROPPED]}, ["`keep=", "'class'"]),
    ],
    ids=lambda value: ", ".join(map(str, value))[:40],
)
def test_invalid_overrides_are_rejected(path, choices, words):
    with refused(*words):
        opened(str(path), **choices)


@pytest.mark.parametrize("seed", [1, 2])
def test_new_rows_are_encoded_by_the_training_schema(write, rows, encoder, seed):
    others = messy_rows(40, seed, missing_rate=0.3)
    table = read_table(write(written(others), "others.csv"), encoder.read_as)
    assert encoder.transform(table).tolist() == expected(others, rows)[1]
    assert encoder.encode(table).missing[:, 1].sum() == 1


def test_one_warning_counts_unknown_values(write, rows, encoder):
    others = [row | {"weight": "70.0"} for row in rows]
    others[4]["colour"] = others[9]["colour"] = "lila"
    others[2]["grade"] = "highest"
    others[5]["town"] = "Nirgendwo"
    others[1]["sex"] = "?"
    path = write(written(others), "others.csv")
    with pytest.warns(UserWarning, match="unknown categories.*missing values") as caught:
        X = encoder.transform(read_table(path))
    assert len(caught) == 1
    for words in (path, "2 in 'colour' ('lila')", "1 in 'grade' ('highest')", "1 in 'sex'"):
        assert str(words) in str(caught[0].message)
    named = dict(zip(encoder.feature_names, X.T, strict=True))
    assert all(named[f"colour = {word}"][4] == 0.0 for word in ("rot", "grün", "weiß"))
    assert named["colour is missing"][4] == 0.0
    grades = [row["grade"] for row in rows if not is_missing(row["grade"])]
    assert named["grade"][2] == statistics.median_low(map(GRADES.index, grades))
    assert named["town = other"][5] == 1.0
    sexes = [row["sex"] for row in rows]
    assert named[f"sex = {max(('m', 'w'), key=sexes.count)}"][1] == 1.0
    with refused(path, "line 6", "'colour'", "'lila'", "omit `strict`"):
        encoder.encode(read_table(path), UnknownValues(strict=True))


def test_missing_values_can_be_rejected(write, rows, path):
    with refused(path, "1 in 'weight' (first: line 5)", "fill them in"):
        opened(read_table(path), missing="error")
    whole = [row for row in rows if not any(is_missing(cell) for cell in row.values())]
    strict = encoder_of(read_table(write(written(whole), "whole.csv")), missing="error")
    for found in (strict, restored(strict)):
        with refused(path, "1 in 'weight' (first: line 5)"):
            found.transform(read_table(path, found.read_as))


def test_rows_without_label_are_dropped_and_counted(write, rows):
    others = [row | {"class": "?"} if k in (0, 7) else row for k, row in enumerate(rows)]
    path = write(written(others))
    found = opened(str(path))
    kept = [k for k in range(len(rows)) if k not in (0, 7)]
    assert found.rows.tolist() == kept
    assert found.X.tolist() == [expected(others)[1][k] for k in kept]
    assert any("dropped 2 rows without" in line and "line 2" in line for line in found.decisions)
    # Rows that are not selected do not affect the encoder.
    some = load_training(str(path)).take(np.arange(30))
    again = some.encoded(TableEncoder(drop="auto")).encoder
    assert again.columns_ == TableEncoder(drop="auto").fit(some.table).columns_
    with pytest.warns(
        UserWarning, match="2 rows without a value for the target 'class', which are"
    ):
        labelled = load_dataset(str(path), found.encoder, labelled=True)
    assert labelled.rows.tolist() == kept
    all_of_them = load_dataset(str(path), found.encoder)
    assert all_of_them.y is None
    assert len(all_of_them.X) == len(rows)


@given(
    st.integers(0, 10**6),
    st.floats(0, 0.5),
    st.lists(st.sampled_from(HEADER[:-1]), unique=True, max_size=4),
    st.lists(st.sampled_from(["age", "town", "grade", "sex"]), unique=True, max_size=2),
)
@settings(quick(25), derandomize=True)
def test_encoder_is_restored_from_json(seed, missing_rate, keep, categorical):
    rows = messy_rows(60, seed, missing_rate)
    columns = {name: np.array([row[name] for row in rows], object) for name in HEADER}
    table = RawTable("t", columns)
    found = encoder_of(table, "class", keep=keep, categorical=categorical)
    again = restored(found)
    assert np.array_equal(again.transform(table), found.transform(table))
    assert str(again.domain()) == str(found.domain())


def test_domain_is_observed_range(encoder, path):
    found = encoder.domain()
    X, names = encoder.encode(read_table(path)).X, list(found.names)
    assert np.array_equal(found.low, X.min(axis=0))
    assert np.array_equal(found.high, X.max(axis=0))
    assert np.array_equal(found.unit, X.std(axis=0))
    assert found.is_integer[names.index("age")]
    assert not found.is_integer[names.index("weight")]
    flags = [name for name, fixed in zip(names, found.fixed, strict=True) if fixed]
    assert flags == ["age is missing", "colour is missing", "grade is missing"]
    words = {group.name: group.values for group in found.categories}
    assert words["colour"] == ("grün", "rot", "weiß")
    for group in found.categories:
        assert [names[p] for p in group.features] == [f"{group.name} = {w}" for w in group.values]
    for feature, flag in found.indicators.items():
        assert names[flag] == f"{names[feature].split(' = ')[0]} is missing"
    ordinals = {names[p]: words for p, words in found.ordinals.items()}
    assert ordinals == {"grade": tuple(GRADES), "span": tuple(SPANS)}
    scale = found.certificate_scale()
    assert [names[p] for p in np.flatnonzero(scale)] == ["age", "weight", "grade", "span"]


def test_domain_of_binary_number_has_two_values():
    binary = np.arange(40.0) % 2
    table = RawTable("t", {"sex": binary, "size": binary * 1.5 + 2, "y": np.arange(40) % 3})
    values = encoder_of(table).domain().values
    assert {p: v.tolist() for p, v in values.items()} == {0: [0.0, 1.0], 1: [2.0, 3.5]}


def concatenated(parts, name="X"):
    return np.concatenate([getattr(part, name) for part in parts])


# -- streams --------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 7, 1000])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_stream_equals_the_table(tmp_path, rows, encoder, stdin, monkeypatch, batch_size, dialect):
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 2000)
    # One warning for all batches, about values in the last rows.
    new = [*rows[:-2], rows[-2] | {"sex": "?"}, rows[-1] | {"colour": "lila"}]
    path = write_messy(tmp_path, new, dialect)
    sources = [str(path)]
    if path.suffix == ".csv":
        stdin(path.read_bytes())
        sources.append("-")
    for source in sources:
        with pytest.warns(UserWarning, match="1 in 'colour'.* 1 in 'sex'") as caught:
            parts = list(stream_dataset(source, encoder, batch_size, extra_columns=["patient"]))
        assert len(caught) == 1
        assert max(len(part.X) for part in parts) <= batch_size
        X, names = concatenated(parts), encoder.feature_names
        assert X[:-2].tolist() == expected(new, rows)[1][:-2]
        assert X[-1, [names.index(f"colour = {word}") for word in ("rot", "weiß")]].sum() == 0.0
        assert concatenated(parts, "y").tolist() == [row["class"] for row in new]
        assert concatenated(parts, "rows").tolist() == list(range(len(new)))
        ids = [text for part in parts for text in part.table.columns["patient"]]
        assert ids == [row["patient"] for row in new]
        assert "note" not in parts[0].table.columns


def test_standard_input_is_read_as_table(stdin, rows):
    stdin(written(rows))
    assert opened("-").X.tolist() == expected(rows)[1]
    stdin(b"a,b\n1,2,3\n")
    with refused("standard input", "3 values"):
        opened("-")


def test_stream_raises_the_errors_of_the_table(write, rows, encoder, stdin):
    with refused("'size'", "`extra_columns`"):
        list(stream_dataset(str(write(written(rows))), encoder, extra_columns=["size"]))
    fewer = [{name: cell for name, cell in row.items() if name != "age"} for row in rows]
    with refused("lacks column 'age'", "it has 'patient', 'nr',", "'class', 'weight',"):
        list(stream_dataset(str(write(written(fewer))), encoder))
    stdin(written([*rows[:100], rows[100] | {"age": "x"}, *rows[101:]]))
    with refused("standard input, row 101", "'age'", "'x'"):
        list(stream_dataset("-", encoder))
    with refused("no rows"):
        list(stream_dataset(str(write(",".join(HEADER) + "\n")), encoder))


def test_stream_of_built_in_dataset_rejects_unknown_categories():
    iris = load_training("iris")
    table = iris.take(np.arange(50)).table
    encoder = TableEncoder(categorical=["petal width (cm)"]).fit(table, iris.y[:50])
    with refused("iris", "'petal width (cm)'", "unknown category"):
        list(stream_dataset("iris", encoder, strict=True))


def test_missing_value_without_imputed_value_is_rejected(path):
    with refused(path, "line 5", "'weight'"):
        Number("weight").encode(read_table(path), np.zeros((150, 1)), UnknownValues())


def test_stream_finds_text_late_in_a_file(write, monkeypatch):
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 300)
    lines = [f"{k}.5,{'x' if k % 2 else 7},{k % 2}" for k in range(200)]
    encoder = encoder_of(read_table(write("\n".join(["a,b,y", *lines]))))
    lines[150] = lines[150].replace("150.5", " NA ")
    lines[:100] = [line.replace("x", "7") for line in lines[:100]]
    path = write("\n".join(["a,b,y", *lines]))
    with pytest.warns(UserWarning, match="1 in 'a'"):
        X = concatenated(stream_dataset(str(path), encoder))
    assert encoder.feature_names == ["a", "b = 7", "b = x"]
    assert X[:100, 1].all()
    assert X[150:, 1].tolist() == [1.0, 0.0] * 25
    assert X[150, 0] == sorted(k + 0.5 for k in range(200))[99]


# -- invalid files --------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
def test_error_names_line_of_invalid_cell(tmp_path, rows, encoder, dialect):
    others = [dict(row) for row in rows]
    others[90]["note"] = "two\nlines"
    others[100]["age"] = "fourty"
    path = write_messy(tmp_path, others, dialect)
    for read in (
        lambda: opened(str(path)),
        lambda: load_dataset(str(path), encoder),
        lambda: list(stream_dataset(str(path), encoder)),
    ):
        with refused(path, "line 103", "'age'", "'fourty'"):
            read()


@pytest.mark.parametrize("block", [100, 1 << 20])
def test_decimal_commas_and_points_in_one_file(write, monkeypatch, block):
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", block)
    lines = [f"{k},5;{k}.25;{k % 3};1.234,5;{k % 2}" for k in range(60)]
    path = write("\n".join(["a;b;c;d;y", *lines]))
    found = read_table(path)
    assert found.columns["a"].tolist() == [k + 0.5 for k in range(60)]
    assert found.columns["b"].tolist() == [k + 0.25 for k in range(60)]
    assert found.columns["c"].tolist() == [k % 3 for k in range(60)]
    assert found.columns["d"].tolist() == ["1.234,5"] * 60
    encoder = encoder_of(found)
    X = np.concatenate([part.X for part in stream_dataset(str(path), encoder)])
    assert np.array_equal(X, encoder.transform(found))
    for cell in ("3o,5", "30.5"):
        lines[30] = f"{cell};30.25;0;1.234,5;0"
        path = write("\n".join(["a;b;c;d;y", *lines]))
        with refused(path, "line 32", "'a'", repr(cell)):
            opened(read_table(path))
        with refused(path, "line 32", "'a'", repr(cell)):
            list(stream_dataset(str(path), encoder))


@pytest.mark.parametrize("block", [400, 1 << 20])
def test_blank_lines_and_long_rows_count_as_lines(write, monkeypatch, block):
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", block)
    lines = ["", "", "a,b,y", *(f"{k}.5,{k % 3},{k % 2}" for k in range(60))]
    lines[20] = '"7.5",1,"0"\n'
    lines[50] = "9.5,x1,0"
    path = write("\n".join(lines))
    for read in (lambda: opened(read_table(path)), lambda: read_table(path, {"b": False})):
        with refused(path, "line 52", "'b'", "'x1'"):
            read()


@pytest.mark.parametrize(
    ("header", "is_data"),
    [
        ("5.1,3.5,1.4,0.2,setosa", True),
        ("5.1;3,5;1.4;0.2;x", True),
        ("63,1,yes,145", True),
        ("0,1,2,3,class", False),
        ("1,2,3,class", False),
        ("2019,2020,2021,class", False),
        ("country,1990,2000,2010,class", False),
        ("age 1,2nd,class", False),
    ],
)
def test_header_that_looks_like_data_is_rejected(write, header, is_data):
    path = write(header + "\n" + header.replace("class", "z").replace("x", "w") + "\n")
    if is_data:
        with refused(path, "no header", "names", "looks like data"):
            read_table(path)
    else:
        assert list(read_table(path).columns) == header.split(",")


def test_unnamed_index_column_is_dropped(table):
    text = ",x,y\n" + "".join(f"{k},{k % 7}.5,{k % 2}\n" for k in range(30))
    encoder, decisions = decided(table(text))
    assert encoder.feature_names == ["x"]
    assert "'Unnamed: 0'" in decisions[0]


@pytest.mark.parametrize("name", ["None", "nOnE", "Nan"])
def test_none_and_mixed_case_are_missing_values_of_features(table, name):
    found = table(f"n,w,y\n1,x,0\n{name},{name},1\n2.5,x,1\n")
    assert found.columns["n"].tolist()[::2] == [1.0, 2.5]
    assert np.isnan(found.columns["n"][1])
    assert found.feature("w").tolist() == ["x", "", "x"]


def test_categorical_is_converted_to_strings():
    words = Categorical.from_cells(["b", None, "a", float("nan"), "b ", 3.0, "?"])
    assert words.tolist() == ["b", "", "a", "", "b", "3", ""]
    assert words.values == ("b", "a", "3")
    assert words.counts.tolist() == [2, 1, 1]
    assert words[[0, 1, 5]].tolist() == ["b", "", "3"]
    assert (words[2], words[1], len(words)) == ("a", "", 7)
    joined = Categorical.concatenate([words, Categorical.from_cells(["c", "a"])])
    assert joined.tolist() == [*words, "c", "a"]
    assert np.array(words).tolist() == words.strings().tolist() == words.tolist()


# -- numbers with units ---------------------------------------------------------------------------


def test_numbers_with_a_unit_are_numbers_and_ids_are_not(write):
    header = "weight,income,price,code,dose,y\n"
    rows = [
        [
            f"{50 + k % 17}.5 kg",
            f'"{900 + 37 * k:,}"',
            f"${1200 + k}",
            f"{1000 + k}x",
            f"{k % 3} mg",
            "ab"[k % 2],
        ]
        for k in range(40)
    ]
    rows[7][0] = "NA"
    path = write(header + "\n".join(map(",".join, rows)))
    found = opened(str(path))
    doses = [f"dose = {k} mg" for k in range(3)]
    assert found.encoder.feature_names == ["weight", "income", "price", *doses]
    weights = [50.5 + k % 17 for k in range(40)]
    weights[7] = statistics.median_low(weights[:7] + weights[8:])
    assert found.X[:, 0].tolist() == weights
    assert found.X[:, 1].tolist() == [900 + 37 * k for k in range(40)]
    assert found.X[:, 2].tolist() == [1200 + k for k in range(40)]
    (line,) = (line for line in found.decisions if "'weight' is" in line)
    assert "'50.5 kg' is 50.5" in line
    assert line.endswith("(`categorical=['weight']` to one-hot encode it)")
    assert any("1 of 40 values is missing: imputed with" in line for line in found.decisions)
    as_text = encoder_of(read_table(path), categorical=["weight"])
    assert "weight = 50.5 kg" in as_text.feature_names
    rows[9][0] = "heavy"
    path = write(header + "\n".join(map(",".join, rows)), "others.csv")
    with refused(path, "line 11", "'weight'", "'heavy'", "numbers are expected"):
        load_dataset(str(path), found.encoder)


def test_numbers_with_different_units_are_text(write):
    rows = [
        [f"{k % 15} {'kg' if k % 2 else 'g'}", f"{'$€'[k % 2]}{k % 15}", "ab"[k % 2]]
        for k in range(60)
    ]
    path = write("weight,price,y\n" + "\n".join(map(",".join, rows)))
    assert {"weight = 3 kg", "price = €3"} <= set(opened(str(path)).encoder.feature_names)


def test_decision_about_free_text_contains_no_cell(write):
    text = "came in for the {}th time; in the evening; with a cough and a fever"
    rows = [f"{k % 7},{text.format(k)},{'ab'[k % 2]}" for k in range(40)]
    path = write("a,note,y\n" + "\n".join(rows))
    (line,) = (line for line in opened(str(path)).decisions if "'note'" in line)
    assert "free text" in line
    assert "came in" not in line
