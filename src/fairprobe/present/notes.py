"""What a careful reader must know to read the numbers of an audit correctly."""

from __future__ import annotations

from fairprobe.documents import TableDocument
from fairprobe.present import chat_sentences, decision_sentences
from fairprobe.present.sentences import BLACK_BOX, measured, noun, scores
from fairprobe.report.formats import count, listed, percent, plain, quoted

EARLY = {
    "interrupted": "was interrupted",
    "seconds": "ended when its time was over",
    "cpu_seconds": "ended when its computing time was used up",
    "rows": "ended when it had judged as many rows as it was given",
    "wanted": "ended when it had as many as were wanted",
}


def notes(document: TableDocument) -> list[str]:
    """All notes, each a sentence or two."""
    written = [
        _about_the_search(document),
        (
            "Possible people are drawn uniformly from the domain, every combination of values"
            " alike; many of them are rarer in life than others."
        ),
        *decision_sentences.notes(document.model.decision, document.sensitive),
        *_about_the_model(document),
        *chat_sentences.notes(document),
        *_about_the_data(document),
        *_about_groups(document),
        *_about_rules(document),
        *_about_accuracy(document),
    ]
    if document.generation.stopped != "complete":
        why = EARLY.get(document.generation.stopped, "ended early")
        written.append(
            f"The search {why}. What it had found until then is complete; more time might have"
            " found more."
        )
    return [plain(note) for note in written]


def _about_the_search(document: TableDocument) -> str:
    rate = percent(document.generation.gsr)
    if not (measured := scores(document)):
        return (
            f"The search looks where it expects to find discrimination. Its success rate ({rate})"
            " says how well it looks, not how many people are affected; that is what the sampled"
            " rate and the people in the data tell."
        )
    return (
        f"Themis looks nowhere in particular: its {count(measured['draws'])} draws are possible"
        " people too, so its causal score and the sampled rate measure the same thing twice. Its"
        f" success rate ({rate}) counts each different person once and has no interval; read the"
        " score instead."
    )


def _about_the_model(document: TableDocument) -> list[str]:
    model, found, written = document.model, document.generation, []
    if document.interpretation is None:
        why = model.why_black_box.rstrip(".")
        written.append(f"{BLACK_BOX}{f' Why it is one: {why}.' if why else ''}")
    if blind := [name for name in document.sensitive if name in model.blind_to]:
        written.append(
            f"The {noun(document)} is not given {listed(blind)}; by that alone it cannot tell two"
            " people apart."
        )
    if found.refuted is not None:
        dropped = (
            f"; {count(found.refuted)} that it did not confirm were dropped"
            if found.refuted
            else ""
        )
        written.append(
            "The search looked into a network that was rebuilt from the model. Each of the"
            f" {count(found.idis)} cases was then confirmed by asking the model itself{dropped}."
        )
    return written


def _about_the_data(document: TableDocument) -> list[str]:
    data, written = document.data, []
    if data.origin is not None and data.origin.ids:
        written.append(
            f"Left out, because they look like ids: {quoted(data.origin.ids)}. Their values differ"
            " in nearly every row, so they tell rows apart rather than describe people. --keep"
            " keeps a column."
        )
    if data.origin is not None and data.origin.weights is not None:
        written.append(
            f"The sample weights of the column “{data.origin.weights}” count in the training of"
            " networks and in the table of weighted numbers. All other numbers count everybody"
            " once."
        )
    if data.outside.rows:
        by_count = sorted(data.outside.by_attribute.items(), key=lambda item: -item[1])
        worst = ", ".join(f"{name} ({count(rows)})" for name, rows in by_count)
        written.append(
            f"{count(data.outside.rows)} of {count(data.rows)} rows have a value outside the"
            f" domain's bounds, by {worst}. They count as people in the data as they are; where the"
            " search starts from them, they are clipped to the bounds."
        )
    if document.people.absent:
        written.append(
            f"Nobody in the data is any of these: {quoted(document.people.absent)}. What the"
            f" {noun(document)} says of such people is a guess beyond its experience."
        )
    return written


def _about_groups(document: TableDocument) -> list[str]:
    """Which answer was taken for the favourable one, and whose numbers are missing or say
    little.
    """
    held, written = document.fairness, []
    if held.positive_assumed and held.positive is not None:
        written.append(
            "The data does not say which answer is favourable; selection rates count"
            f" “{document.data.classes[held.positive]}”."
        )
    if held.group is None:
        return [
            *written,
            (
                "The data does not say which of its answers is favourable, so selection rates of"
                " groups were not measured."
            ),
        ]
    tables, alone = held.group.tables, len(document.sensitive)
    # Each attribute, and all together; pairs, of which there can be many, add little.
    written += [
        f"Small groups by {table.attribute}, less than {percent(table.smallest)} of the people"
        f" {measured(document)}: {quoted(small)}; their rates say little."
        for table in (*tables[:alone], *tables[alone:][-1:])
        if (small := [row.name for row in table.rows if row.is_small])
    ]
    return written + [
        f"{count(table.unknown)} of the people {measured(document)} have {table.attribute} outside"
        " the domain; they are in no group."
        for table in tables[:alone]
        if table.unknown
    ]


def _about_rules(document: TableDocument) -> list[str]:
    rules = document.data.constraints
    return [f"Generated people obey these rules: {', '.join(rules)}."] if rules else []


def _about_accuracy(document: TableDocument) -> list[str]:
    model, classes = document.model, document.data.classes
    held_out = (
        f"rows that the {noun(document)} did not see in training."
        if model.trained_here
        else (
            f"rows, a fifth of the data. Whether the {noun(document)} saw them in training is not"
            " known here."
        )
    )
    papers = " The papers report accuracy on training data." if model.trained_here else ""
    written = [
        f"The accuracy of {percent(model.accuracy)} was measured on {count(model.accuracy_rows)}"
        f" {held_out} Always giving the commonest answer would reach {percent(model.majority)}."
        f"{papers}"
    ]
    if len(classes) == 2 and 1 - model.accuracy_high > model.majority:
        written.append(
            f"Taken the other way round, the {noun(document)}'s answers would be right for"
            f" {percent(1 - model.accuracy)}. Most likely its classes stand in another order than"
            f" the data's, which is “{classes[0]}”, then “{classes[1]}”; then all that is said here"
            " about who gets which answer is the wrong way round. Say the order when the model is"
            " loaded (--classes)."
        )
    return written
