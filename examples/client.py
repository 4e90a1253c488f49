"""Ask a running `shoal serve` for vectors: python examples/client.py all-MiniLM-L6-v2"""

import argparse

import shoal

FACTS = [
    "A whale is a mammal that lives in the sea.",
    "Bread is made from flour, water and yeast.",
    "The fastest train in the world floats above its rails.",
]
#: Bulk work waits for others, so it gets more time than a search.
NIGHT_S = 600.0


def show(client: shoal.Client, asked: str) -> None:
    """What of the catalog is loaded; the model that was asked may be told a moment later."""
    for model in client.models():
        if model.lanes or asked in (model.id, *model.aliases):
            print(
                f"{model.id:<36} {model.state:<10} lanes: {model.lanes}  {model.bytes / 1e6:.0f} MB"
            )


def search(client: shoal.Client, model: str, question: str) -> str:
    """The fact that answers best. Vectors have length 1, so their product is the cosine."""
    prompt = "query" if "query" in client.model(model).prompts else None
    facts = client.encode(model, FACTS)  # numpy, [3, 384] float32
    asked = client.encode(model, question, prompt=prompt)  # [384]
    return FACTS[int((facts @ asked).argmax())]


def night(client: shoal.Client, model: str, texts: list[str]) -> None:
    """Many texts in what interactive work leaves; a bad one costs the others nothing."""
    encoded = client.encode_detailed(model, texts, truncate=False, bulk=True, dtype="float16")
    print(f"{len(encoded.positions)} of {len(texts)} texts have a vector")
    for position, error in encoded.errors.items():
        print(f"text {position}: {error.code}")


def main() -> None:
    """Do all three."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    asked = parser.parse_args()
    with shoal.Client(asked.url) as client:
        print(search(client, asked.model, "Which animal swims?"))
    with shoal.Client(asked.url, timeout_s=NIGHT_S) as client:
        night(client, asked.model, [*FACTS * 20, "far too long " * 1000])
        show(client, asked.model)


if __name__ == "__main__":
    main()
